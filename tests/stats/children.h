/* Children of a test of MD_STATS, and what they write. */
#ifndef MD_TESTS_STATS_CHILDREN_H
#define MD_TESTS_STATS_CHILDREN_H

#include "support/check.h"

#include <dirent.h>
#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT_S = 60, GOOD = 42 };

static char folder[64], name[128]; /* where children write */
static int told[2]; /* a pipe by which a child says that it is ready */

static inline int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/md-test-end-XXXXXX");
    return !mkdtemp(folder) || pipe(told);
}

/* How many entries the folder has; their names go if they are to be removed. */
static inline int count_files(bool removes)
{
    int n = 0;
    DIR *all = opendir(folder);
    assert_non_null(all);
    for (struct dirent *e; (e = readdir(all));) {
        n += e->d_name[0] != '.';
        if (removes)
            unlinkat(dirfd(all), e->d_name, 0);
    }
    closedir(all);
    return n;
}

static inline int tear_down(void **state)
{
    (void)state;
    count_files(true);
    close(told[0]);
    close(told[1]);
    return rmdir(folder);
}

static inline const char *in_folder(const char *file)
{
    snprintf(name, sizeof name, "%s/%s", folder, file);
    return name;
}

/* ---- In a child */

static inline void must(bool is_so, const char *what)
{
    if (is_so)
        return;
    fprintf(stderr, "in the child: %s: %s\n", what, md_last_error());
    _exit(1);
}

static inline md_context *make_context(void)
{
    md_context *c = NULL;
    const md_context_options o = {.device = "host", .cc = "/nonexistent/cc", .threads = 1, .cache_dir = ""};
    must(md_context_create(&c, &o) == MD_OK, "md_context_create");
    return c;
}

/* Calls an op of that name once. Children end without destroying it: it is kept where a leak checker finds it. */
static inline md_op *use(md_context *c, const char *op_name)
{
    enum { MOST = 16 };
    static md_op *kept[MOST];
    static int n_kept;
    md_op *op = NULL;
    float x[4] = {0}, y[4];
    const int64_t n = 4;
    const md_tensor tx = md_tensor_make(x, MD_F32, 1, &n), ty = md_tensor_make(y, MD_F32, 1, &n);
    must(md_op_create(&op, c, "Y[i] = X[i] + 1", &(md_op_options){.name = op_name}) == MD_OK, "md_op_create");
    kept[n_kept % MOST] = op;
    must(md_call(kept[n_kept++ % MOST], NULL, (md_arg[]){md_t(&ty), md_t(&tx)}, 2) == MD_OK, "md_call");
    return op;
}

static inline void tell(void)
{
    must(write(told[1], "x", 1) == 1, "write");
}

static inline void wait_for_the_end(void)
{
    for (;;)
        pause();
}

/* ---- In the test */

static inline void hear_child(void)
{
    char c;
    assert_int_equal(read(told[0], &c, 1), 1);
}

/* Runs a child with MD_STATS = file, and does not wait for it. */
static inline pid_t start(void (*be)(void), const char *file)
{
    fflush(stdout);
    fflush(stderr);
    setenv("MD_STATS", strcmp(file, "-") ? in_folder(file) : file, 1);
    const pid_t child = fork();
    if (child == 0) {
        alarm(LIMIT_S);
        be();
        exit(GOOD);
    }
    assert_true(child > 0);
    unsetenv("MD_STATS");
    return child;
}

static inline void expect_exit(pid_t child)
{
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), GOOD);
}

static inline void expect_signal(pid_t child, int number)
{
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), number);
}

/* Calls of the op of that name in a file of statistics; -1 without the file. */
static inline json_int_t calls_in(const char *file, const char *op_name)
{
    size_t i;
    json_t *row;
    json_int_t n = 0;
    if (access(in_folder(file), F_OK) != 0)
        return -1;
    json_error_t error;
    json_t *root = json_load_file(in_folder(file), 0, &error);
    if (!root)
        fail_msg("%s: %s", file, error.text);
    assert_true(json_is_true(json_object_get(root, "complete")));
    json_array_foreach(json_object_get(root, "shapes"), i, row)
    {
        if (!strcmp(json_string_value(json_object_get(row, "op")), op_name))
            n += json_integer_value(json_object_get(row, "calls"));
    }
    json_decref(root);
    return n;
}

#endif
