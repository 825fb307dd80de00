/* Warm calls and nothing else, for counting instructions: warm_count CASE CALLS. The device's launch is replaced by a function that returns at once. */
#include "api/context.h"

#include <stdlib.h>
#include <string.h>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        if ((call) != MD_OK) {                                                                                         \
            fprintf(stderr, "%s: %s\n", #call, md_last_error());                                                       \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

enum { MANY = 256 };

static md_status no_launch(md_dev *dev, md_stream stream, const md_dev_kernel *kernel, const md_kn_geometry *geometry,
                           const md_kn_word *params, int32_t n, const md_kn_call *call)
{
    (void)dev, (void)stream, (void)kernel, (void)geometry, (void)params, (void)n, (void)call;
    return MD_OK;
}

typedef struct shape {
    md_tensor tensor[3];
    md_arg arg[3];
} shape;

/* "same": one shape, as often as asked; "many": 256 shapes in turn, which the last plans of a thread cannot hold. */
int main(int argc, char **argv)
{
    static _Alignas(64) float memory[3][1 << 16];
    static shape shapes[MANY];
    md_context *c = NULL;
    md_op *op = NULL;
    const int n = argc > 1 && !strcmp(argv[1], "many") ? MANY : 1;
    const long calls = argc > 2 ? atol(argv[2]) : 1000;
    CHECK(md_context_create(&c, &(md_context_options){.device = "host", .threads = 1, .hints = "64"}));
    CHECK(md_op_create(&op, c, "Y[i,j] = X[i,j] * 2 + B[j]", &(md_op_options){.max_variants = 1}));
    for (int k = 0; k < n; k++) {
        char sizes[64];
        snprintf(sizes, sizeof sizes, "i=%d, j=%d", 1 + k % 16, 16 + k / 16);
        for (int i = 0; i < 3; i++) {
            CHECK(md_op_tensor(&shapes[k].tensor[i], op, i, sizes));
            shapes[k].tensor[i].data = memory[i];
            shapes[k].arg[i] = md_t(&shapes[k].tensor[i]);
        }
    }
    for (int round = 0; round < 3; round++)
        for (int k = 0; k < n; k++)
            CHECK(md_call(op, NULL, shapes[k].arg, 3));
    md_dev_ops stubbed = *c->dev->ops;
    const md_dev_ops *real = c->dev->ops;
    stubbed.launch = no_launch;
    c->dev->ops = &stubbed;
    for (long i = 0; i < calls; i++)
        CHECK(md_call(op, NULL, shapes[i % n].arg, 3));
    c->dev->ops = real;
    md_op_destroy(&op);
    md_context_destroy(&c);
    return 0;
}
