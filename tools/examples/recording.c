/* A recording: an ordinary program of two calls runs at two sizes, and becomes one object that runs at any
 * (sequence.c builds the same by hand).
 * Prints:
 *     32 runs at 32 sizes, 0 values differ */
#include <md/sequence.h>

#include <stdio.h>
#include <stdlib.h>

enum { WIDTH = 64, MOST = 32 };

static float w[WIDTH * WIDTH], h[MOST * WIDTH]; /* weights; between the calls */

static void check(md_status status)
{
    if (status == MD_OK)
        return;
    fprintf(stderr, "%s\n", md_last_error());
    exit(1);
}

/* An ordinary program: H = relu(X W'), then Y = softmax of H's rows. */
static void step(md_op *product, md_op *softmax, float *y, float *x, int64_t rows)
{
    const int64_t size[] = {rows, WIDTH}, square[] = {WIDTH, WIDTH};
    md_tensor X = md_tensor_make(x, MD_F32, 2, size), W = md_tensor_make(w, MD_F32, 2, square),
              H = md_tensor_make(h, MD_F32, 2, size), Y = md_tensor_make(y, MD_F32, 2, size);
    const md_arg first[] = {md_t(&H), md_t(&X), md_t(&W)}, second[] = {md_t(&Y), md_t(&H)};
    check(md_call(product, NULL, first, 3));
    check(md_call(softmax, NULL, second, 2));
}

int main(void)
{
    static float x[MOST * WIDTH], y[MOST * WIDTH], again[MOST * WIDTH];
    md_context_options host = {0};
    md_context *context = NULL;
    md_op *product = NULL, *softmax = NULL;
    md_sequence *sequence = NULL;
    host.device = "host";
    for (int i = 0; i < MOST * WIDTH; i++)
        x[i] = (float)(i % 7) * 0.1f;
    for (int i = 0; i < WIDTH * WIDTH; i++)
        w[i] = (float)(i % 5) * 0.01f;
    check(md_context_create(&context, &host));
    check(md_op_create(&product, context, "H[t,n] = max(sum[k](X[t,k] * W[n,k]), 0)", NULL));
    check(md_op_create(&softmax, context, "softmax", NULL));

    check(md_sequence_create(&sequence, context, NULL));
    check(md_sequence_add_dim(NULL, sequence, "t", 1, MOST));
    for (int64_t t = 3; t <= 8; t += 5) {
        const size_t n_bytes = (size_t)t * WIDTH * sizeof(float);
        check(md_sequence_record_begin(sequence, &t, 1));
        check(md_sequence_record_memory(sequence, "x", MD_SEQUENCE_INPUT, x, n_bytes));
        check(md_sequence_record_memory(sequence, "y", MD_SEQUENCE_OUTPUT, y, n_bytes));
        step(product, softmax, y, x, t); /* w is only read: a constant; h becomes the sequence's own memory */
        check(md_sequence_record_end(sequence));
    }
    check(md_sequence_finish(sequence));

    int wrong = 0;
    for (int64_t t = 1; t <= MOST; t++) {
        void *data[] = {x, again};
        check(md_sequence_run(sequence, NULL, &t, 1, data, 2));
        step(product, softmax, y, x, t);
        for (int i = 0; i < t * WIDTH; i++)
            wrong += again[i] - y[i] > 1e-6f || y[i] - again[i] > 1e-6f;
    }
    md_sequence_counters counters;
    check(md_sequence_count(&counters, sequence));
    printf("%lld runs at %lld sizes, %d values differ\n", (long long)counters.n_runs, (long long)counters.n_sizes,
           wrong);
    md_sequence_destroy(&sequence);
    md_op_destroy(&product);
    md_op_destroy(&softmax);
    md_context_destroy(&context);
    return wrong != 0;
}
