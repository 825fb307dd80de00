/* A step of several calls as one object (md/sequence.h), built by hand: tensors with sizes in dims, calls in order. The
 * sequence plans the memory between the calls.
 * Prints:
 *     rows 1: 0.4256 0.5744
 *     rows 4: 0.4256 0.5744
 *     2 calls, one block of memory between them */
#include <md/sequence.h>

#include <stdio.h>
#include <stdlib.h>

static void check(md_status status)
{
    if (status == MD_OK)
        return;
    fprintf(stderr, "%s\n", md_last_error());
    exit(1);
}

static int32_t add(md_sequence *sequence, const char *name, md_sequence_role role, const char *size, void *data)
{
    const md_sequence_tensor tensor = {.name = name, .role = role, .size = size, .data = data};
    int32_t id = 0;
    check(md_sequence_add_tensor(&id, sequence, &tensor));
    return id;
}

int main(void)
{
    static float w[2 * 3] = {0.1f, 0.2f, 0.3f, 0.2f, 0.3f, 0.4f}; /* weights stay where they are */
    float x[4 * 3], y[4 * 2];
    md_context *context = NULL;
    md_op *product = NULL, *softmax = NULL;
    md_sequence *sequence = NULL;
    for (int i = 0; i < 4 * 3; i++)
        x[i] = (float)(i % 3);
    check(md_context_create(&context, &(md_context_options){.device = "host"}));
    check(md_op_create(&product, context, "H[t,n] = max(sum[k](X[t,k] * W[n,k]), 0)", NULL));
    check(md_op_create(&softmax, context, "softmax", NULL));

    check(md_sequence_create(&sequence, context, NULL));
    check(md_sequence_add_dim(NULL, sequence, "t", 1, 4));
    const int32_t X = add(sequence, "X", MD_SEQUENCE_INPUT, "t, 3", NULL);
    const int32_t Y = add(sequence, "Y", MD_SEQUENCE_OUTPUT, "t, 2", NULL);
    const int32_t W = add(sequence, "W", MD_SEQUENCE_CONSTANT, "2, 3", w);
    const int32_t H = add(sequence, "H", MD_SEQUENCE_TEMPORARY, "t, 2", NULL);
    check(md_sequence_add_call(sequence, product, (md_sequence_arg[]){{.id = H}, {.id = X}, {.id = W}}, 3));
    check(md_sequence_add_call(sequence, softmax, (md_sequence_arg[]){{.id = Y}, {.id = H}}, 2));
    check(md_sequence_finish(sequence));

    for (int64_t t = 1; t <= 4; t += 3) {
        void *data[] = {x, y}; /* of inputs and outputs, in the order in which they were added */
        check(md_sequence_run(sequence, NULL, &t, 1, data, 2));
        printf("rows %d: %.4f %.4f\n", (int)t, (double)y[2 * t - 2], (double)y[2 * t - 1]);
    }
    md_sequence_counters counters;
    check(md_sequence_count(&counters, sequence));
    printf("%d calls, %s between them\n", (int)counters.n_calls,
           counters.arena_bytes ? "one block of memory" : "nothing");
    md_sequence_destroy(&sequence);
    md_op_destroy(&product);
    md_op_destroy(&softmax);
    md_context_destroy(&context);
    return 0;
}
