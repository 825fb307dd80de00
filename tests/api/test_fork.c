/* A child made by fork goes on with its parent's context, whatever the parent's threads were at. On the host device:
 * a GPU does not follow a fork (tests/device/test_cuda). */
#include "support/check.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LIMIT_S = 60, ROUNDS = 6, CHILDREN = 10 };

static md_status call(md_op *op, int64_t rows, int64_t columns)
{
    enum { MOST = 1 << 14 };
    float *x = calloc(2 * MOST, sizeof *x), *y = x + MOST;
    const int64_t size[] = {rows, columns};
    md_tensor tx = md_tensor_make(x, MD_F32, 2, size), ty = md_tensor_make(y, MD_F32, 2, size);
    for (int64_t i = 0; i < rows * columns; i++)
        x[i] = (float)i;
    md_status s = md_call(op, NULL, (md_arg[]){md_t(&ty), md_t(&tx)}, 2);
    for (int64_t i = 0; i < rows * columns && s == MD_OK; i++)
        if (y[i] != x[i] + 1.0f)
            s = MD_INTERNAL;
    free(x);
    return s;
}

static md_status make(md_op **op, md_context *context, int number, int is_async)
{
    char formula[64];
    snprintf(formula, sizeof formula, "Y[i,j] = X[i,j] + (1 + 0 * %d.0)", number);
    return md_op_create(op, context, formula, &(md_op_options){.hints = "16,64", .async = is_async});
}

/* Known and new shapes, an op of its own, one that the parent may be making, then everything is destroyed. */
static int be_a_child(md_context *context, md_op *op, int number)
{
    md_op *own = NULL, *other = NULL;
    alarm(2 * LIMIT_S); /* also if the parent waits no more */
    md_status s = call(op, 4, 64);
    s = s == MD_OK ? call(op, 8 + number % 64, 33) : s;
    s = s == MD_OK ? make(&own, context, -1 - number, 0) : s;
    s = s == MD_OK ? call(own, 5, 6) : s;
    s = s == MD_OK ? make(&other, context, number, 0) : s;
    s = s == MD_OK ? call(other, 6, 7) : s;
    s = s == MD_OK ? md_op_wait(op) : s;
    if (s != MD_OK)
        fprintf(stderr, "in the child: %s\n", md_last_error());
    md_op_destroy(&own);
    md_op_destroy(&other);
    md_op_destroy(&op);
    md_context_destroy(&context);
    return (int)s;
}

static void pause_us(int64_t us)
{
    nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
}

/* Where it hangs, if there is a debugger to ask. */
static void report(pid_t child)
{
    char command[96];
    snprintf(command, sizeof command, "gdb -p %d -batch -ex 'thread apply all bt' 2>/dev/null", (int)child);
    fflush(stdout);
    if (system(command) != 0)
        printf("(no gdb to say where)\n");
}

static void wait_for(pid_t child)
{
    int status = -1;
    pid_t got = 0;
    assert_true(child > 0);
    for (int64_t us = 0; us < LIMIT_S * 1000000LL && got == 0; us += 1000) {
        got = waitpid(child, &status, WNOHANG);
        if (got == 0)
            pause_us(1000);
    }
    if (got == 0) {
        report(child);
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        fail_msg("the child hung");
    }
    if (WIFSIGNALED(status))
        fail_msg("the child died: signal %d", WTERMSIG(status));
    assert_int_equal(WEXITSTATUS(status), MD_OK);
}

static void a_child_of_a_quiet_parent(void **state)
{
    (void)state;
    md_context *context = NULL;
    md_op *op = NULL;
    assert_ok(md_context_create(&context, &(md_context_options){.device = "host", .threads = 2}));
    assert_ok(md_op_create(&op, context, "Y[i,j] = X[i,j] + 1", NULL));
    assert_ok(call(op, 4, 64));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(be_a_child(context, op, 0));
    wait_for(child);
    assert_ok(call(op, 16, 16)); /* the parent does not notice */
    md_op_destroy(&op);
    md_context_destroy(&context);
}

typedef struct busy {
    md_context *context;
    md_op *op;
    _Atomic bool is_over;
    _Atomic int n_wrong, n_made;
} busy;

static void *serve(void *user)
{
    busy *b = user;
    uint64_t random = 1;
    while (!b->is_over)
        b->n_wrong += call(b->op, 1 + (int64_t)(check_random(&random) % 128),
                           1 + (int64_t)(check_random(&random) % 128)) != MD_OK;
    return NULL;
}

/* Kernels are built all the time. */
static void *make_ops(void *user)
{
    busy *b = user;
    for (int i = 0; !b->is_over; i++) {
        md_op *op = NULL;
        b->n_wrong += make(&op, b->context, i, i % 2) != MD_OK || call(op, 3, 5) != MD_OK;
        md_op_destroy(&op);
        b->n_made++;
    }
    return NULL;
}

static void fork_some(busy *b, uint64_t *random)
{
    pthread_t server, maker;
    assert_ok(md_context_create(&b->context, &(md_context_options){.device = "host", .threads = 3}));
    assert_ok(md_op_create(&b->op, b->context, "Y[i,j] = X[i,j] + 1", &(md_op_options){.async = 1}));
    assert_int_equal(pthread_create(&server, NULL, serve, b), 0);
    assert_int_equal(pthread_create(&maker, NULL, make_ops, b), 0);
    for (int i = 0; i < CHILDREN; i++) {
        pause_us((int64_t)(check_random(random) % 20000));
        fflush(stdout);
        pid_t child = fork();
        if (child == 0)
            _exit(be_a_child(b->context, b->op, b->n_made));
        wait_for(child);
    }
    b->is_over = true;
    assert_int_equal(pthread_join(server, NULL), 0);
    assert_int_equal(pthread_join(maker, NULL), 0);
    assert_int_equal(b->n_wrong, 0);
    assert_true(b->n_made > 0);
    md_op_destroy(&b->op);
    md_context_destroy(&b->context);
}

static void children_of_a_busy_parent(void **state)
{
    (void)state;
    uint64_t random = check_seed();
    for (int i = 0; i < ROUNDS; i++)
        fork_some(&(busy){0}, &random);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_of_a_quiet_parent),
        cmocka_unit_test(children_of_a_busy_parent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
