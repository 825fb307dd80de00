/* Warm calls and nothing else, for counting instructions: warm_count CASE CALLS... The device's launch is replaced by
 * a function that returns at once. */
#include "api/context.h"
#include "dispatch/support/stub.h"
#include "support/or_exit.h"

#include <stdlib.h>
#include <string.h>

enum { MANY = 256, ALL = 5000 };

typedef struct shape {
    md_tensor tensor[3];
    md_arg arg[3];
} shape;

/* check_instructions.py counts the instructions of this function and of what it calls. */
__attribute__((noinline)) static void warm_calls(md_op *op, const shape *shapes, int n, long calls)
{
    for (long i = 0; i < calls; i++)
        CHECK(md_call(op, NULL, shapes[i % n].arg, 3));
}

/* "same": one shape, as often as asked; "many": 256 shapes in turn, each with an entry of the thread; "all": 5,000,
 * which have no room there. */
int main(int argc, char **argv)
{
    static _Alignas(64) float memory[3][1 << 16];
    static shape shapes[ALL];
    md_context *c = NULL;
    md_op *op = NULL;
    const char *which = argc > 1 ? argv[1] : "same";
    const int n = !strcmp(which, "all") ? ALL : !strcmp(which, "many") ? MANY : 1;
    CHECK(md_context_create(&c, &(md_context_options){.device = "host", .threads = 1, .hints = "64"}));
    CHECK(md_op_create(&op, c, "Y[i,j] = X[i,j] * 2 + B[j]", &(md_op_options){.max_variants = 1}));
    for (int k = 0; k < n; k++) {
        char sizes[64];
        snprintf(sizes, sizeof sizes, "i=%d, j=%d", 1 + k % 100, 16 + k / 100);
        for (int i = 0; i < 3; i++) {
            CHECK(md_op_tensor(&shapes[k].tensor[i], op, i, sizes));
            shapes[k].tensor[i].data = memory[i];
            shapes[k].arg[i] = md_t(&shapes[k].tensor[i]);
        }
    }
    for (int round = 0; round < 12; round++) /* one of a shape's first ten calls may ask for a race */
        for (int k = 0; k < n; k++)
            CHECK(md_call(op, NULL, shapes[k].arg, 3));
    stub stubbed;
    stub_make(&stubbed, c->dev);
    stub_set(&stubbed, c->dev, true);
    for (int i = 2; i < argc; i++)
        warm_calls(op, shapes, n, atol(argv[i]));
    stub_set(&stubbed, c->dev, false);
    md_op_destroy(&op);
    md_context_destroy(&c);
    return 0;
}
