/* A device whose n-th operation fails, for each n: a call that says that it went well has computed what it should, and
 * what was not done is said. With the host, and with a device whose work is done later. */
#include "api/context.h"
#include "base/status.h"
#include "device/host/host.h"
#include "device/open.h"
#include "support/check.h"
#include "support/devices/async_device.h"

#include <md/combo.h>
#include <md/list.h>
#include <md/sequence.h>

enum { N = 40, MOST_OPERATIONS = 400 };

/* ---- The device */

/* What fails, and what must then be said: others may be done in another way. */
#define OPERATIONS(X)                                                                                                  \
    X(alloc, false, (void **out, md_dev *dev, size_t n), (out, dev, n))                                                \
    X(copy, true, (md_dev * dev, void *to, const void *from, size_t n), (dev, to, from, n))                            \
    X(sync, true, (md_dev * dev, md_stream s), (dev, s))                                                               \
    X(load, false,                                                                                                     \
      (md_dev_kernel * *out, md_dev * dev, const void *binary, size_t n, const md_kn_launch_source *source),           \
      (out, dev, binary, n, source))                                                                                   \
    X(launch, true,                                                                                                    \
      (md_dev * dev, md_stream s, const md_dev_kernel *k, const md_kn_geometry *g, md_dev_params p,                    \
       const md_kn_call *c),                                                                                           \
      (dev, s, k, g, p, c))                                                                                            \
    X(launch_list, true, (md_dev * dev, const md_dev_list *list), (dev, list))                                         \
    X(workspace, true, (void **out, md_dev *dev, md_stream s, size_t n), (out, dev, s, n))                             \
    X(counters, true, (void **out, md_dev *dev, md_stream s), (out, dev, s))                                           \
    X(table_make, true, (void **out, md_dev *dev, const void *from, size_t n, bool w), (out, dev, from, n, w))         \
    X(copy_background, true, (md_dev * dev, md_stream s, void *to, const void *from, size_t n), (dev, s, to, from, n)) \
    X(copy_tensor, true, (md_dev * dev, md_stream s, const md_tensor *to, const md_tensor *from), (dev, s, to, from))  \
    X(report_create, true, (md_dev_report * out, md_dev * dev), (out, dev))                                            \
    X(report_clear, true, (md_dev * dev, const md_dev_report *r), (dev, r))                                            \
    X(mark_create, false, (md_dev_mark * *out, md_dev * dev), (out, dev))                                              \
    X(mark_put, false, (md_dev * dev, md_dev_mark * m, md_stream s), (dev, m, s))                                      \
    X(mark_wait, true, (md_dev * dev, md_dev_mark * m, md_stream s), (dev, m, s))                                      \
    X(graph_change, false, (md_dev * dev, md_dev_graph * g, const md_dev_graph_change *c, int32_t n, bool u),          \
      (dev, g, c, n, u))                                                                                               \
    X(graph_launch, true, (md_dev * dev, md_dev_graph * g, md_stream s), (dev, g, s))                                  \
    X(check_pointer, true, (md_dev * dev, const void *p), (dev, p))                                                    \
    X(check_stream, true, (md_dev * dev, md_stream s), (dev, s))

static const md_dev_ops *real;
static md_dev_ops ops;
static async_device later;
static bool is_later;
static int64_t n_left; /* the operation that fails is the one that finds 1 here */
static const char *failed; /* its name */
static bool must_be_said, is_making_graph;

static bool is_next(const char *name, bool is_said)
{
    if (n_left <= 0 || --n_left > 0)
        return false;
    failed = name;
    must_be_said = is_said && !is_making_graph; /* without a graph launches serve */
    return true;
}

#define DEFINE(name, is_said, types, args)                                                                             \
    static md_status try_##name types                                                                                  \
    {                                                                                                                  \
        return is_next(#name, is_said) ? md_fail(MD_DEVICE, #name " fails") : real->name args;                         \
    }
OPERATIONS(DEFINE)

static md_status try_graph_make(md_dev_graph **graph, bool *is_updated, md_dev *dev,
                                md_status (*body)(void *user, md_stream stream), void *user)
{
    if (is_next("graph_make", false))
        return md_fail(MD_DEVICE, "graph_make fails");
    is_making_graph = true;
    const md_status s = real->graph_make(graph, is_updated, dev, body, user);
    is_making_graph = false;
    return s;
}

static md_status like_any_stream(md_dev *dev, md_stream stream)
{
    (void)dev, (void)stream;
    return MD_OK;
}

/* In the place of src/device/open.c. */
md_status md_dev_open(md_dev **out, const md_dev_options *options)
{
    static md_dev_ops with_streams;
    md_dev *dev = NULL;
    MD_TRY(md_dev_host_open(&dev, options));
    dev->environment = options->environment;
    if (is_later) {
        assert_true(async_device_init(&later, dev));
        dev = &later.base;
    }
    with_streams = *dev->ops;
    if (is_later)
        with_streams.check_stream = like_any_stream;
    real = &with_streams;
    ops = *real;
#define REPLACE(name, is_said, types, args)                                                                            \
    if (ops.name)                                                                                                      \
        ops.name = try_##name;
    OPERATIONS(REPLACE)
    if (ops.graph_make)
        ops.graph_make = try_graph_make;
    dev->ops = &ops;
    *out = dev;
    return MD_OK;
}

void md_dev_close(md_dev **dev)
{
    if (*dev)
        (*dev)->ops->destroy(*dev);
    *dev = NULL;
}

/* ---- Bodies */

static md_context *context;
static md_op *op;
static float *memory[4]; /* two inputs, two outputs */
static md_tensor tensor[4];
static const char *const formula = "Y[i] = X[i] * 2 + sum[j](X[j])";
static const int64_t sizes[] = {N};

/* X[i] = i + k: the sum is 780 + 40 k. */
static void open_all(void)
{
    float value[N], nothing[N];
    assert_ok(md_context_create(&context, &(md_context_options){.device = "host", .threads = 1, .hints = "64"}));
    assert_ok(md_op_create(&op, context, formula, NULL));
    assert_ok(md_op_wait(op));
    for (int t = 0; t < 4; t++) {
        void *p = NULL;
        assert_ok(md_alloc(&p, context, sizeof value));
        memory[t] = p;
        for (int i = 0; i < N; i++) {
            value[i] = (float)(i + t);
            nothing[i] = -1;
        }
        assert_ok(md_copy(context, p, t < 2 ? value : nothing, sizeof value));
        tensor[t] = md_tensor_make(p, MD_F32, 1, sizes);
    }
}

static void close_all(void)
{
    n_left = 0;
    for (int t = 0; t < 4; t++)
        md_free(context, memory[t]);
    md_op_destroy(&op);
    md_context_destroy(&context);
}

static void clear(int k)
{
    float nothing[N];
    for (int i = 0; i < N; i++)
        nothing[i] = -1;
    assert_ok(md_copy(context, memory[2 + k], nothing, sizeof nothing));
}

/* True if output k is twice input k and the sum of what was summed: one input, or all. */
static bool is_right(int k, bool sums_all)
{
    float value[N];
    const int sum = sums_all ? 780 + 820 : 780 + 40 * k;
    bool is_good = true;
    assert_ok(md_sync(context, NULL));
    assert_ok(md_copy(context, value, memory[2 + k], sizeof value));
    for (int i = 0; i < N; i++)
        is_good = is_good && value[i] == (float)(2 * (i + k) + sum);
    return is_good;
}

static md_status call_op(void)
{
    const md_arg args[] = {md_t(&tensor[2]), md_t(&tensor[0])};
    return md_call(op, NULL, args, 2);
}

static md_status call_launch(void)
{
    const md_arg args[] = {md_t(&tensor[2]), md_t(&tensor[0])};
    md_launch *launch = NULL;
    md_status s = md_resolve(&launch, op, args, 2);
    if (s == MD_OK)
        s = md_launch_run(launch, NULL, args, 2);
    md_launch_destroy(&launch);
    return s;
}

static md_status call_combo(void)
{
    const md_arg args[] = {md_t(&tensor[2]), md_t(&tensor[0]), md_t(&tensor[3]), md_t(&tensor[1])};
    return md_combo_call(context, NULL, (md_combo_part[]){{op, args, 2, 1}, {op, args + 2, 2, 1}}, 2);
}

static md_status make_list(md_list **list, md_arg args[2])
{
    md_status s = md_list_create(list, context, "let n = sum[t,i](X@t[i]); Y@t[i] = X@t[i] * 2 + n", NULL);
    for (int32_t i = 0; s == MD_OK && i < 2; i++) {
        md_list_info info;
        s = md_list_arg(&info, *list, i);
        args[i] = s == MD_OK && info.name[0] == 'Y' ? md_ts(tensor + 2, 2) : md_ts(tensor, 2);
    }
    return s;
}

static md_status call_list(void)
{
    md_list *list = NULL;
    md_arg args[2];
    md_status s = make_list(&list, args);
    if (s == MD_OK)
        s = md_list_call(list, NULL, args, 2);
    if (s == MD_OK)
        s = md_sync(context, NULL);
    md_list_destroy(&list);
    return s;
}

/* Three runs: the third may be a graph. */
static md_status call_sequence(void)
{
    md_sequence *s = NULL;
    int32_t in = 0, between = 0, out = 0;
    const md_sequence_tensor given[] = {{.role = MD_SEQUENCE_INPUT, .size = "n"},
                                        {.role = MD_SEQUENCE_TEMPORARY, .size = "n"},
                                        {.role = MD_SEQUENCE_OUTPUT, .size = "n"}};
    void *data[] = {memory[0], memory[2]};
    md_op *copy = NULL;
    md_status status = md_op_create(&copy, context, "Z[i] = A[i]", NULL);
    if (status == MD_OK)
        status = md_sequence_create(&s, context, NULL);
    if (status == MD_OK)
        status = md_sequence_add_dim(NULL, s, "n", 1, 100);
    if (status == MD_OK)
        status = md_sequence_add_tensor(&in, s, &given[0]);
    if (status == MD_OK)
        status = md_sequence_add_tensor(&between, s, &given[1]);
    if (status == MD_OK)
        status = md_sequence_add_tensor(&out, s, &given[2]);
    if (status == MD_OK)
        status = md_sequence_add_call(s, copy, (md_sequence_arg[]){{.id = between}, {.id = in}}, 2);
    if (status == MD_OK)
        status = md_sequence_add_call(s, op, (md_sequence_arg[]){{.id = out}, {.id = between}}, 2);
    if (status == MD_OK)
        status = md_sequence_finish(s);
    for (int i = 0; i < 4 && status == MD_OK; i++)
        status = md_sequence_run(s, NULL, sizes, 1, data, 2);
    if (status == MD_OK)
        status = md_sync(context, NULL);
    md_sequence_destroy(&s);
    md_op_destroy(&copy);
    return status;
}

static const struct {
    const char *name;
    md_status (*run)(void);
    int n_outputs;
    bool sums_all;
} bodies[] = {{"call", call_op, 1},
              {"launch", call_launch, 1},
              {"combo", call_combo, 2},
              {"list", call_list, 2, true},
              {"sequence", call_sequence, 1}};

/* ---- Every operation of every body */

/* Fails operation n of a body. False: it has fewer. */
static bool fail_one(size_t body, int64_t n)
{
    open_all();
    for (int k = 0; k < bodies[body].n_outputs; k++)
        clear(k);
    failed = NULL;
    n_left = n;
    const md_status s = bodies[body].run();
    n_left = 0;
    if (!failed)
        assert_ok(s);
    if (s == MD_OK && failed && must_be_said)
        fail_msg("%s: operation %d, %s, failed, and nothing was said", bodies[body].name, (int)n, failed);
    for (int k = 0; k < bodies[body].n_outputs && s == MD_OK; k++)
        if (!is_right(k, bodies[body].sums_all))
            fail_msg("%s: operation %d, %s: the result is wrong, and nothing was said", bodies[body].name, (int)n,
                     failed ? failed : "none");
    assert_ok(bodies[body].run()); /* what failed has broken nothing */
    for (int k = 0; k < bodies[body].n_outputs; k++)
        assert_true(is_right(k, bodies[body].sums_all));
    close_all();
    return failed != NULL;
}

static void run_all(bool is_async)
{
    is_later = is_async;
    for (size_t body = 0; body < sizeof bodies / sizeof *bodies; body++) {
        int64_t n = 1;
        while (n < MOST_OPERATIONS && fail_one(body, n))
            n++;
        printf("%s: %d operations\n", bodies[body].name, (int)n - 1);
        assert_in_range(n, 2, MOST_OPERATIONS - 1);
    }
}

static void failures_on_the_host_are_said(void **state)
{
    (void)state;
    run_all(false);
}

static void failures_on_a_device_are_said(void **state)
{
    (void)state;
    run_all(true);
}

/* A captured call wants memory of its own. */
static void a_captured_list_without_memory_breaks_nothing(void **state)
{
    (void)state;
    md_list *list = NULL;
    md_arg args[2];
    is_later = true;
    open_all();
    assert_ok(make_list(&list, args));
    assert_ok(md_list_call(list, NULL, args, 2));
    async_device_capture(&later, NULL, true);
    failed = NULL;
    n_left = 1;
    const md_status s = md_list_call(list, NULL, args, 2);
    n_left = 0;
    async_device_capture(&later, NULL, false);
    assert_non_null(failed);
    assert_string_equal(failed, "alloc");
    assert_int_equal(s, MD_OUT_OF_MEMORY);
    clear(1);
    assert_ok(md_list_call(list, NULL, args, 2));
    assert_true(is_right(1, true));
    md_list_destroy(&list);
    close_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failures_on_the_host_are_said),
        cmocka_unit_test(failures_on_a_device_are_said),
        cmocka_unit_test(a_captured_list_without_memory_breaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
