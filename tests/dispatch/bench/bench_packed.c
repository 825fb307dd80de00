/* What packed operands cost and save on a CPU: products with the weights as they lie, and packed once (option
 * constant). Run by hand: bench_packed [columns [depth]]. Times are the least of many calls in turns. */
#include "base/clock.h"

#include <md/md.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 512, ROUNDS = 15 };

static void check(md_status status)
{
    if (status == MD_OK)
        return;
    fprintf(stderr, "%s\n", md_last_error());
    exit(1);
}

static md_context *context;

typedef struct call {
    md_op *op;
    md_tensor y, x, w;
    md_choice choice;
} call;

static void *fill(size_t n_bytes, bool is_bytes)
{
    uint64_t state = 1;
    unsigned char *p = aligned_alloc(64, (n_bytes + 63) / 64 * 64);
    for (size_t i = 0; p && i + 4 <= n_bytes; i += 4) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const float v = (float)(state >> 40) / 16777216.0f - 0.5f;
        const uint32_t bits = (uint32_t)(state >> 32);
        memcpy(p + i, is_bytes ? (const void *)&bits : (const void *)&v, 4);
    }
    return p;
}

static double time_of(const call *c)
{
    const md_arg args[] = {md_t(&c->y), md_t(&c->x), md_t(&c->w)};
    const uint64_t start = md_clock_ns();
    check(md_call(c->op, NULL, args, 3));
    return (double)(md_clock_ns() - start) / 1e3;
}

static void run(const char *name, md_dtype of_w, const char *formula, int64_t rows, int64_t columns, int64_t depth)
{
    call c[2];
    double least[2] = {1e30, 1e30}, first = 0;
    const md_dtype of_x = of_w == MD_BF16 ? MD_BF16 : MD_F32;
    const size_t elements = (size_t)(columns * depth);
    void *w = fill(of_w == MD_I4 ? elements / 2 : elements * md_dtype_size(of_w), of_w == MD_I8 || of_w == MD_I4),
         *x = fill((size_t)(MOST_ROWS * depth * 4), false), *y = fill((size_t)(MOST_ROWS * columns * 4), false);
    if (of_w == MD_BF16) {
        uint16_t *h = w;
        for (size_t i = 0; i < elements; i++)
            h[i] = (uint16_t)(0x3f00 + i % 97);
        for (int64_t i = 0; i < MOST_ROWS * depth; i++)
            ((uint16_t *)x)[i] = (uint16_t)(0x3f00 + i % 89);
    }
    for (int32_t i = 0; i < 2; i++) {
        const md_op_options options = {.dtype = of_x, .constant = i ? "W" : NULL, .idle_tune = -1};
        check(md_op_create(&c[i].op, context, formula, &options));
        c[i].y = md_tensor_make(y, of_x, 2, (int64_t[]){rows, columns});
        c[i].x = md_tensor_make(x, of_x, 2, (int64_t[]){rows, depth});
        c[i].w = md_tensor_make(w, of_w, 2, (int64_t[]){columns, depth});
        const md_arg args[] = {md_t(&c[i].y), md_t(&c[i].x), md_t(&c[i].w)};
        check(md_choice_of(&c[i].choice, c[i].op, args, 3));
        const double us = time_of(&c[i]);
        first = i ? us : first;
    }
    for (int32_t round = 0; round < ROUNDS; round++)
        for (int32_t i = 0; i < 2; i++) {
            const double us = time_of(&c[i]);
            least[i] = us < least[i] ? us : least[i];
        }
    printf("%-5s %5lld %10.1f %10.1f %6.2f %10.1f  %s | %s\n", name, (long long)rows, least[0], least[1],
           least[0] / least[1], first, c[0].choice.variant[0], c[1].choice.variant[0]);
    fflush(stdout);
    for (int32_t i = 0; i < 2; i++)
        md_op_destroy(&c[i].op);
    free(w), free(x), free(y);
}

int main(int argc, char **argv)
{
    static const int64_t rows[] = {1, 4, 8, 12, 16, 24, 32, 64, 128, 512};
    const int64_t columns = argc > 1 ? atoll(argv[1]) : 2048, depth = argc > 2 ? atoll(argv[2]) : 4096;
    check(md_context_create(&context, &(md_context_options){.device = "host"}));
    printf("type   rows   plain us  packed us  ratio   first us  variants\n");
    for (int32_t r = 0; r < (int32_t)(sizeof rows / sizeof *rows); r++) {
        run("f32", MD_F32, "Y[t,n] = sum[k](X[t,k] * W[n,k])", rows[r], columns, depth);
        run("bf16", MD_BF16, "Y[t,n] = sum[k](X[t,k] * W[n,k])", rows[r], columns, depth);
        run("i8", MD_I8, "Y[t,n] = sum[k](X[t,k] * f32(W:i8[n,k]))", rows[r], columns, depth);
        run("i4", MD_I4, "Y[t,n] = sum[k](X[t,k] * f32(W:i4[n,k]))", rows[r], columns, depth);
    }
    md_context_destroy(&context);
    return 0;
}
