/* The system's C compiler for tests, which keeps the kernels that it compiled: tests make the same ones many times, a
 * third of all. Named cc, in the first folder of PATH; TEST_CC_KEPT names the folder of what is kept. Only a command
 * that makes a library of one file is kept, by its words without paths, the file's text, and the compiler.
 * TEST_CC_OPTIMIZE=-Og stands in for the library's -O2: half the time, for tests of what is around kernels.
 * TEST_CC_MORE: more words for the compiler; then the source is kept, too, and REACH_DIR gets a file that is called as
 * the kernel (tools/mutate --make-reach). */
#define XXH_INLINE_ALL
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

typedef struct command {
    char **words;
    const char *source, *binary; /* NULL: not a command that is kept */
    char compiler[PATH_MAX];
    bool keeps_source;
} command;

/* The first cc of PATH that is not this program. */
static bool find_compiler(char out[PATH_MAX])
{
    struct stat own, other;
    char *path = strdup(getenv("PATH") ? getenv("PATH") : "/usr/bin:/bin"), *rest = NULL;
    bool is_found = false;
    if (!path || stat("/proc/self/exe", &own))
        return false;
    for (char *folder = strtok_r(path, ":", &rest); folder && !is_found; folder = strtok_r(NULL, ":", &rest)) {
        snprintf(out, PATH_MAX, "%s/cc", folder);
        is_found =
            !access(out, X_OK) && !stat(out, &other) && (other.st_ino != own.st_ino || other.st_dev != own.st_dev);
    }
    free(path);
    return is_found;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), n_end = strlen(end);
    return n >= n_end && !strcmp(text + n - n_end, end);
}

static void read_command(command *c)
{
    int n_sources = 0;
    bool is_shared = false;
    for (char **word = c->words + 1; *word; word++) {
        is_shared |= !strcmp(*word, "-shared");
        if (!strcmp(*word, "-o") && word[1])
            c->binary = *++word;
        else if (ends_with(*word, ".c") && ++n_sources)
            c->source = *word;
    }
    if (!is_shared || n_sources != 1)
        c->source = NULL;
}

static void set_optimization(const command *c, char *wanted)
{
    for (char **word = c->words + 1; *word && wanted && *wanted; word++)
        if (!strcmp(*word, "-O2"))
            *word = wanted;
}

/* Words of TEST_CC_MORE, at spaces, behind those of the command. */
static void add_words(command *c, char *more)
{
    char *rest = NULL;
    int n = 0;
    while (c->words[n])
        n++;
    char **words = calloc((size_t)n + strlen(more) + 2, sizeof *words);
    if (!words)
        return;
    memcpy(words, c->words, (size_t)n * sizeof *words);
    for (char *word = strtok_r(more, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        words[n++] = word;
    c->words = words;
    c->keeps_source = true;
}

static bool add_file(XXH3_state_t *hash, const char *path)
{
    char part[65536];
    size_t n;
    FILE *f = fopen(path, "rb");
    if (!f)
        return false;
    while ((n = fread(part, 1, sizeof part, f)) > 0)
        XXH3_128bits_update(hash, part, n);
    return fclose(f) == 0;
}

static bool make_key(char out[33], const command *c)
{
    struct stat about;
    XXH3_state_t *hash = XXH3_createState();
    if (!hash || stat(c->compiler, &about))
        return false;
    XXH3_128bits_reset(hash);
    XXH3_128bits_update(hash, c->compiler, strlen(c->compiler));
    XXH3_128bits_update(hash, &about.st_mtime, sizeof about.st_mtime);
    for (char **word = c->words + 1; *word; word++)
        if (*word != c->source && *word != c->binary)
            XXH3_128bits_update(hash, *word, strlen(*word) + 1);
    const bool is_read = add_file(hash, c->source);
    const XXH128_hash_t key = XXH3_128bits_digest(hash);
    snprintf(out, 33, "%016llx%016llx", (unsigned long long)key.high64, (unsigned long long)key.low64);
    XXH3_freeState(hash);
    return is_read;
}

static bool copy(const char *from, const char *to)
{
    char part[65536];
    ssize_t n = -1;
    const int in = open(from, O_RDONLY | O_CLOEXEC), out = in < 0 ? -1 : open(to, O_WRONLY | O_CREAT | O_TRUNC, 0777);
    while (out >= 0 && (n = read(in, part, sizeof part)) > 0)
        if (write(out, part, (size_t)n) != n)
            n = -1;
    if (in >= 0)
        close(in);
    return out >= 0 && close(out) == 0 && n == 0;
}

static int compile(const command *c)
{
    int status = 0;
    const pid_t child = fork();
    if (child == 0) {
        execv(c->compiler, c->words);
        _exit(127);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static void note(const char *folder, const char *key)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/kernel-%s", folder, key);
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd >= 0)
        close(fd);
}

/* Of two that want the same kernel at once the second one waits. */
static int compile_or_take(const command *c, const char *kept)
{
    char key[33], path[PATH_MAX], lock[PATH_MAX], made[PATH_MAX];
    if (!make_key(key, c))
        return compile(c);
    (void)mkdir(kept, 0777);
    if (c->keeps_source && getenv("REACH_DIR"))
        note(getenv("REACH_DIR"), key);
    snprintf(path, sizeof path, "%s/%s", kept, key);
    snprintf(lock, sizeof lock, "%s/%s.lock", kept, key);
    snprintf(made, sizeof made, "%s/%s.%d", kept, key, (int)getpid());
    if (copy(path, c->binary))
        return 0;
    const int held = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (held >= 0 && flock(held, LOCK_EX) == 0 && copy(path, c->binary))
        return 0;
    const int status = compile(c);
    if (status == 0 && (!copy(c->binary, made) || rename(made, path)))
        (void)unlink(made);
    snprintf(made, sizeof made, "%s/%s.c", kept, key);
    if (status == 0 && c->keeps_source && !copy(c->source, made))
        (void)unlink(made);
    return status;
}

int main(int argc, char **argv)
{
    (void)argc;
    command c = {.words = argv};
    const char *kept = getenv("TEST_CC_KEPT");
    if (!find_compiler(c.compiler))
        return fputs("cc: no C compiler in PATH\n", stderr), 127;
    argv[0] = c.compiler; /* GCC finds its parts from there */
    read_command(&c);
    if (c.source && c.binary)
        set_optimization(&c, getenv("TEST_CC_OPTIMIZE"));
    if (c.source && c.binary && getenv("TEST_CC_MORE"))
        add_words(&c, getenv("TEST_CC_MORE"));
    if (kept && *kept && c.source && c.binary)
        return compile_or_take(&c, kept);
    execv(c.compiler, c.words);
    return 127;
}
