/* A folder for one test of the store, and short forms for what tests do in it. */
#include "store/scratch.h"

#include "support/check.h"

#include "base/env.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void hear(void *user, md_log_level level, const char *message)
{
    scratch *s = user;
    pthread_mutex_lock(&s->lock); /* a pool's threads speak at the same time */
    if (level <= MD_LOG_WARN)
        s->n_warnings++;
    snprintf(s->message, sizeof s->message, "%s", message);
    pthread_mutex_unlock(&s->lock);
}

int scratch_setup(void **state)
{
    scratch *s = calloc(1, sizeof *s);
    if (!s)
        return -1;
    const char *root = md_env_foreign(NULL, "TMPDIR");
    snprintf(s->folder, sizeof s->folder, "%s/multidispatch-test-XXXXXX", root ? root : "/tmp");
    if (!mkdtemp(s->folder))
        return -1;
    snprintf(s->root, sizeof s->root, "%s/store", s->folder);
    pthread_mutex_init(&s->lock, NULL);
    s->log = (md_log){hear, s, MD_LOG_DEBUG};
    *state = s;
    return 0;
}

int scratch_teardown(void **state)
{
    scratch *s = *state;
    scratch_shell("rm -rf '%s'", s->folder);
    pthread_mutex_destroy(&s->lock);
    free(s);
    return 0;
}

md_sr *scratch_open(scratch *s, const char *environment)
{
    md_sr *store = NULL;
    assert_ok(md_sr_open(&store, &(md_sr_options){.root = s->root, .environment = environment, .log = &s->log}));
    assert_non_null(store);
    return store;
}

void scratch_path(char out[4400], const scratch *s, const char *environment, const char *kind, const char *key)
{
    char full[256], of_environment[33], of_key[33];
    snprintf(full, sizeof full, "%s %s", kind, key);
    md_digest_text(of_environment, md_hash128(environment, strlen(environment)));
    md_digest_text(of_key, md_hash128(full, strlen(full)));
    snprintf(out, 4400, "%s/%s/%s/%.2s/%s", s->root, of_environment, kind, of_key, of_key);
}

void scratch_shell(const char *format, ...)
{
    char command[12000];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    if (system(command) != 0)
        fail_msg("%s", command);
}

void scratch_put(md_sr *store, const char *key, const char *text)
{
    assert_ok(md_sr_put(store, "note", key, text, strlen(text)));
}

void scratch_expect(md_sr *store, const char *key, const char *text)
{
    void *got = NULL;
    size_t n = 0;
    const md_status status = md_sr_find(&got, &n, store, "note", key);
    if (!text) {
        assert_int_equal(status, MD_NOT_FOUND);
        return;
    }
    assert_int_equal(status, MD_OK);
    assert_int_equal(n, strlen(text));
    assert_string_equal(got, text);
    free(got);
}

void scratch_crowd(int n, int (*be)(void *user, int i), void *user)
{
    pid_t *child = calloc((size_t)n, sizeof *child);
    assert_non_null(child);
    for (int i = 0; i < n; i++) {
        child[i] = fork();
        if (child[i] == 0)
            _exit(be(user, i));
    }
    int failed = -1, how = 0;
    for (int i = 0; i < n; i++) {
        int status = -1;
        if (child[i] < 0 || waitpid(child[i], &status, 0) != child[i] || status != 0)
            failed = i, how = status;
    }
    free(child);
    if (failed >= 0)
        fail_msg("process %d ended with %x", failed, (unsigned)how);
}
