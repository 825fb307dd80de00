/* Processes of two hosts over one store, on what looks as a network file system (nfs.c), with kills in between: nothing
 * that was kept is lost, nothing is corrupt, nobody waits for ever. Argument: the library to preload. */
#include "store/store.h"
#include "support/check.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PROCESSES = 64, KEYS = 6, PUTS = 8, KILLS = 16 };

static const char *library;

/* ---- A process of a host: adds lines to entries, and writes each to its own file once it is kept */

typedef struct line {
    const char *text;
} line;

/* A md_sr_merge_fn: the lines that are there, and one more. */
static md_status add_line(void **out, size_t *n_out, void *user, const void *there, size_t n)
{
    const line *l = user;
    const size_t n_line = strlen(l->text);
    char *bytes = malloc(n + n_line + 1);
    if (!bytes)
        return MD_OUT_OF_MEMORY;
    if (n)
        memcpy(bytes, there, n);
    memcpy(bytes + n, l->text, n_line);
    *out = bytes;
    *n_out = n + n_line;
    return MD_OK;
}

static int work(const char *root, const char *own, int number)
{
    md_sr *store = NULL;
    FILE *kept = fopen(own, "w");
    uint64_t seed = (uint64_t)number * 7919 + 1;
    if (!kept || md_sr_open(&store, &(md_sr_options){.root = root, .environment = "nfs", .limit_bytes = -1}) != MD_OK)
        return 1;
    for (int i = 0; i < PUTS; i++) {
        char key[32], text[32];
        snprintf(key, sizeof key, "key %d", (int)(check_random(&seed) % KEYS));
        snprintf(text, sizeof text, "%d-%d\n", number, i);
        const md_status s = md_sr_update(store, "wisdom", key, add_line, &(line){text});
        if (s != MD_OK) {
            fprintf(stderr, "process %d: %s\n", number, md_last_error());
            return 1;
        }
        fprintf(kept, "%s %s", key, text);
        fflush(kept);
    }
    const bool is_whole = md_sr_count(store)->healed == 0; /* no entry was taken for a bad one */
    md_sr_close(&store);
    fclose(kept);
    return is_whole ? 0 : 2;
}

/* ---- The parent */

static pid_t start(const char *root, const char *folder, int number)
{
    char own[256], text[16], state[256];
    const pid_t pid = fork();
    if (pid != 0)
        return pid;
    snprintf(own, sizeof own, "%s/kept-%d", folder, number);
    snprintf(text, sizeof text, "%d", number);
    snprintf(state, sizeof state, "%s/state", folder);
    setenv("LD_PRELOAD", library, 1);
    setenv("NFS_ROOT", root, 1);
    setenv("NFS_STATE", state, 1);
    setenv("NFS_HOST", number % 2 ? "1" : "0", 1);
    setenv("NFS_LATE_MS", "400", 1);
    setenv("NFS_MISSING_MS", "1500", 1);
    execl("/proc/self/exe", "test_store_nfs", "--work", root, own, text, (char *)NULL);
    _exit(3);
}

static void check_lines(const char *root, const char *folder)
{
    md_sr *store = NULL;
    void *bytes[KEYS] = {NULL};
    int32_t n_lines = 0, n_lost = 0;
    assert_ok(md_sr_open(&store, &(md_sr_options){.root = root, .environment = "nfs"}));
    for (int k = 0; k < KEYS; k++) {
        char key[32];
        size_t n = 0;
        snprintf(key, sizeof key, "key %d", k);
        assert_ok(md_sr_find(&bytes[k], &n, store, "wisdom", key));
    }
    for (int i = 0; i < PROCESSES; i++) {
        char path[256], read[64], wanted[64];
        snprintf(path, sizeof path, "%s/kept-%d", folder, i);
        FILE *f = fopen(path, "r");
        while (f && fgets(read, sizeof read, f)) {
            int k = -1, at = 0;
            assert_int_equal(sscanf(read, "key %d %n", &k, &at), 1);
            snprintf(wanted, sizeof wanted, "\n%s", read + at);
            const char *text = bytes[k];
            n_lines++;
            n_lost += strncmp(text, wanted + 1, strlen(wanted + 1)) != 0 && !strstr(text, wanted);
        }
        if (f)
            fclose(f);
    }
    for (int k = 0; k < KEYS; k++)
        free(bytes[k]);
    assert_int_equal(md_sr_count(store)->healed, 0);
    md_sr_close(&store);
    printf("%d lines were kept, %d of them are lost\n", (int)n_lines, (int)n_lost);
    assert_true(n_lines > PROCESSES * PUTS / 2);
    assert_int_equal(n_lost, 0);
}

/* How often the library said what is not so: the last words of its state. */
static void check_lies(const char *folder)
{
    char path[256];
    uint64_t n[4] = {0}; /* late, missing, stale, locks */
    snprintf(path, sizeof path, "%s/state", folder);
    FILE *f = fopen(path, "r");
    assert_true(f && fseek(f, -(long)sizeof n, SEEK_END) == 0 && fread(n, sizeof n, 1, f) == 1);
    fclose(f);
    printf("%llu names were seen late, %llu were missing, %llu files stale, %llu locks were none\n",
           (unsigned long long)n[0], (unsigned long long)n[1], (unsigned long long)n[2], (unsigned long long)n[3]);
    assert_true(n[0] + n[1] > 0 && n[2] > 0 && n[3] > 0);
}

static void two_hosts_lose_nothing(void **state)
{
    (void)state;
    char folder[] = "/tmp/md-nfs-XXXXXX", root[64], command[64];
    pid_t pid[PROCESSES];
    uint64_t seed = check_seed();
    int32_t n_failed = 0;
    assert_non_null(mkdtemp(folder));
    snprintf(root, sizeof root, "%s/store", folder);
    for (int i = 0; i < PROCESSES; i++)
        pid[i] = start(root, folder, i);
    for (int i = 0; i < KILLS; i++) {
        nanosleep(&(struct timespec){.tv_nsec = (long)(check_random(&seed) % 60000000)}, NULL);
        kill(pid[check_random(&seed) % PROCESSES], SIGKILL);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status = 0;
        assert_true(waitpid(pid[i], &status, 0) == pid[i]);
        n_failed += !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) && status != 0;
    }
    assert_int_equal(n_failed, 0);
    check_lies(folder);
    check_lines(root, folder);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(two_hosts_lose_nothing)};
    if (argc == 5 && !strcmp(argv[1], "--work"))
        return work(argv[2], argv[3], atoi(argv[4]));
    if (argc == 4 && !strcmp(argv[1], "--check")) { /* after processes that real_nfs began */
        check_lines(argv[2], argv[3]);
        return 0;
    }
    if (argc != 2)
        return 2;
    library = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
