/* A child made by fork while nothing is being built goes on with its parent's context. On the host device: a GPU does not follow a fork
 * (tests/device/test_cuda). */
#include "support/check.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT_S = 60 };

static md_status call(md_op *op, int64_t rows, int64_t columns)
{
    static float x[1 << 14], y[1 << 14];
    const int64_t size[] = {rows, columns};
    md_tensor tx = md_tensor_make(x, MD_F32, 2, size), ty = md_tensor_make(y, MD_F32, 2, size);
    for (int64_t i = 0; i < rows * columns; i++)
        x[i] = (float)i;
    md_status s = md_call(op, NULL, (md_arg[]){md_t(&ty), md_t(&tx)}, 2);
    for (int64_t i = 0; i < rows * columns && s == MD_OK; i++)
        if (y[i] != x[i] + 1.0f)
            return MD_INTERNAL;
    return s;
}

/* Known and new shapes, an op of its own, then everything is destroyed. */
static int be_a_child(md_context *context, md_op *op)
{
    md_op *own = NULL;
    alarm(LIMIT_S);
    md_status s = call(op, 4, 64);
    s = s == MD_OK ? call(op, 8, 33) : s;
    s = s == MD_OK ? md_op_create(&own, context, "Y[i,j] = X[i,j] + 1.0 * 1", &(md_op_options){.hints = "64"}) : s;
    s = s == MD_OK ? call(own, 5, 6) : s;
    s = s == MD_OK ? md_op_wait(op) : s;
    md_op_destroy(&own);
    md_op_destroy(&op);
    md_context_destroy(&context);
    return (int)s;
}

static void a_child_of_a_quiet_parent(void **state)
{
    (void)state;
    md_context *context = NULL;
    md_op *op = NULL;
    int status = -1;
    assert_ok(md_context_create(&context, &(md_context_options){.device = "host", .threads = 2}));
    assert_ok(md_op_create(&op, context, "Y[i,j] = X[i,j] + 1", NULL));
    assert_ok(call(op, 4, 64));
    fflush(stdout);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(be_a_child(context, op));
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status))
        fail_msg("the child hung, or died: signal %d", WTERMSIG(status));
    assert_int_equal(WEXITSTATUS(status), MD_OK);
    assert_ok(call(op, 16, 16)); /* the parent does not notice */
    md_op_destroy(&op);
    md_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_of_a_quiet_parent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
