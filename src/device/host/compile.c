/* Compiles kernel texts with the C compiler of the system. */
#include "device/host/host.h"

#include "base/file.h"
#include "base/task/process.h"
#include "base/status.h"
#include "base/temp.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* -O2 -fpeel-loops instead of -O3: of what -O3 adds, kernels need only that short loops over registers are unrolled
 * (otherwise accumulators stay in memory), which costs 4 ms a kernel instead of 15. Contraction is off so that the
 * result's bits do not depend on the family; kernels that need fma say so. */
static const char base_flags[] =
    "-std=gnu11 -O2 -fpeel-loops -fPIC -shared -pipe -w -fno-math-errno -fno-trapping-math "
    "-fwrapv -ffp-contract=off";

/* Splits a text at spaces, in place. False if argv would overflow. */
static bool split(const char **argv, int32_t *n, int32_t limit, char *text)
{
    char *rest = NULL;
    for (char *word = strtok_r(text, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest)) {
        if (*n >= limit)
            return false;
        argv[(*n)++] = word;
    }
    return true;
}

md_status md_dev_host_flags(char out[512], const char *isa)
{
    int n = snprintf(out, 512, "%s %s", base_flags, isa);
    return n < 0 || n >= 512 ? md_fail(MD_INTERNAL, "compiler flags of %d characters", n) : MD_OK;
}

md_status md_dev_host_command_init(md_dev_host_command *out, const char *cc, const char *flags, int32_t limit_ms)
{
    enum { N_OWN = 5 }; /* -o, two paths, -lm, NULL */
    size_t n_cc = strlen(cc), n_flags = strlen(flags);
    char *words = malloc(n_cc + 1 + n_flags + 1);
    if (!words)
        return md_fail_memory();
    memcpy(words, cc, n_cc + 1);
    memcpy(words + n_cc + 1, flags, n_flags + 1);
    md_dev_host_command command = {.words = words, .limit_ms = limit_ms};
    int32_t n = 0;
    bool fits = split(command.argv, &n, MD_DEV_HOST_ARGV / 2, words);
    bool is_empty = n == 0;
    fits = fits && split(command.argv, &n, MD_DEV_HOST_ARGV - N_OWN, words + n_cc + 1);
    if (is_empty || !fits) {
        free(words);
        return md_fail(MD_INVALID_ARGUMENT, "compiler '%.200s' (MD_CC): a program and a few options are expected", cc);
    }
    command.argv[n++] = "-o";
    command.i_binary = n++;
    command.i_source = n++;
    command.argv[n] = "-lm";
    *out = command;
    return MD_OK;
}

void md_dev_host_command_finish(md_dev_host_command *command)
{
    free(command->words);
    command->words = NULL;
}

/* "cc (Debian 12.2.0-14+deb12u1) 12.2.0" -> "gcc 12.2.0"; "Debian clang version 14.0.6" -> "clang 14.0.6"; others by
 * their own name. */
static void read_version(char out[128], const char *text)
{
    char line[256], last[64] = "";
    size_t n = MD_MIN(strcspn(text, "\n"), sizeof line - 1);
    memcpy(line, text, n);
    line[n] = 0;
    bool is_clang = strstr(line, "clang") != NULL;
    char *rest = NULL, first[64] = "";
    for (char *word = strtok_r(line, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest)) {
        if (!first[0])
            snprintf(first, sizeof first, "%s", word);
        if (isdigit((unsigned char)word[0]) && strchr(word, '.'))
            snprintf(last, sizeof last, "%s", word);
    }
    /* The text alone does not tell: all GNU programs name the Free Software Foundation. */
    const bool is_gcc = !is_clang && strstr(first, "cc") && strstr(text, "Free Software Foundation");
    snprintf(out, 128, "%s%s%s", is_clang ? "clang" : is_gcc ? "gcc" : first, last[0] ? " " : "", last);
}

md_status md_dev_host_compiler_version(char out[128], const md_dev_host *host)
{
    const md_dev_host_command *command = &host->command;
    enum { LIMIT_MS = 10000 };
    const char *const argv[] = {command->argv[0], "--version", NULL};
    int32_t exit_code = 0;
    char *text = NULL;
    MD_TRY(md_process_run(&exit_code, &text, argv, MD_MIN(LIMIT_MS, command->limit_ms), host->base.environment, NULL));
    md_status status = MD_OK;
    if (exit_code != 0)
        status = md_fail(MD_COMPILE, "'%.200s --version' ends with status %d", command->argv[0], exit_code);
    else
        read_version(out, text);
    free(text);
    return status;
}

/* Copies the compiler's first error line without the path of the temporary folder: "kernel.c:12:5: error: ...". */
static void first_error(char out[400], const char *text, const char *folder)
{
    const char *line = strstr(text, "error");
    if (!line)
        line = text + strspn(text, " \t\n");
    while (line > text && line[-1] != '\n')
        line--;
    size_t n = strcspn(line, "\n"), n_folder = strlen(folder), used = 0;
    for (size_t i = 0; i < n && used + 1 < 400;) {
        if (n - i > n_folder && strncmp(line + i, folder, n_folder) == 0 && line[i + n_folder] == '/')
            i += n_folder + 1;
        else
            out[used++] = line[i++];
    }
    out[used] = 0;
}

static md_status run_once(int32_t *exit_code, char **text, const md_dev_host *host, const char *const *argv,
                          const char *folder)
{
    return md_process_run(exit_code, text, argv, host->command.limit_ms, host->base.environment, folder);
}

/* Where the system has no room for the compiler's own child processes, it may have room soon: other compilers end. So
 * it is tried again, one compiler at a time. */
static md_status run_with_room(int32_t *exit_code, char **text, md_dev_host *host, const char *const *argv,
                               const char *folder)
{
    enum { TRIES = 20, PAUSE_NS = 100 * 1000 * 1000 };
    static const char no_room[] = "Resource temporarily unavailable"; /* EAGAIN in the child's language */
    md_status status = run_once(exit_code, text, host, argv, folder);
    if (status != MD_OK || *exit_code == 0 || !strstr(*text, no_room))
        return status;
    pthread_mutex_lock(&host->lock_of_retries);
    const int tries = host->lacks_room ? 1 : TRIES; /* after retries that did not help there is one try */
    for (int i = 0; i < tries && status == MD_OK && *exit_code != 0 && strstr(*text, no_room); i++) {
        free(*text);
        *text = NULL;
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
        status = run_once(exit_code, text, host, argv, folder);
    }
    host->lacks_room = status == MD_OK && *exit_code != 0 && strstr(*text, no_room);
    pthread_mutex_unlock(&host->lock_of_retries);
    return status;
}

static md_status run_compiler(md_dev_host *host, const char *folder, const char *source_path, const char *binary_path)
{
    const md_dev_host_command *command = &host->command;
    const char *argv[MD_DEV_HOST_ARGV];
    memcpy(argv, command->argv, sizeof argv);
    argv[command->i_source] = source_path;
    argv[command->i_binary] = binary_path;
    int32_t exit_code = 0;
    char *text = NULL;
    md_status status = run_with_room(&exit_code, &text, host, argv, folder);
    if (status == MD_NOT_FOUND)
        return md_fail(MD_COMPILE, "no C compiler '%.200s' (MD_CC)", argv[0]);
    if (status != MD_OK)
        return status;
    if (exit_code != 0) {
        char line[400];
        first_error(line, text, folder);
        status = md_fail(MD_COMPILE, "compiler '%.200s' ended with status %d%s%s", argv[0], exit_code,
                         line[0] ? ": " : "", line);
    }
    free(text);
    return status;
}

static md_status compile_in(void **binary, size_t *n_bytes, md_dev_host *host, const char *folder,
                            const md_kn_launch_source *source)
{
    char source_path[4096 + 16], binary_path[4096 + 16];
    snprintf(source_path, sizeof source_path, "%s/kernel.c", folder);
    snprintf(binary_path, sizeof binary_path, "%s/kernel.so", folder);
    MD_TRY(md_file_write(source_path, md_strbuf_text(&source->text), source->text.size));
    MD_TRY(run_compiler(host, folder, source_path, binary_path));
    char *bytes = NULL;
    size_t n = 0;
    md_status status = md_file_read(&bytes, &n, binary_path);
    if (status == MD_NOT_FOUND || (status == MD_OK && n == 0)) {
        free(bytes);
        return md_fail(MD_COMPILE, "compiler '%.200s' succeeded but wrote nothing", host->command.argv[0]);
    }
    if (status != MD_OK)
        return status;
    *binary = bytes;
    *n_bytes = n;
    return MD_OK;
}

md_status md_dev_host_compile(void **binary, size_t *n_bytes, md_dev *dev, const md_kn_launch_source *source)
{
    md_dev_host *host = (md_dev_host *)dev;
    if (!dev->facts.can_compile)
        return md_fail(MD_COMPILE, "no working C compiler '%.200s' (MD_CC)", host->command.argv[0]);
    md_temp folder;
    MD_TRY(md_temp_make(&folder, dev->environment));
    md_status status = compile_in(binary, n_bytes, host, folder.path, source);
    md_temp_remove(&folder);
    return status;
}
