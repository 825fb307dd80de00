/* A callback: work of your own between the calls of a sequence. Here it counts how many values a layer has cut off, and
 * fails where a limit is passed: the run ends with its message.
 * Prints:
 *     rows 2: 3 values are 0
 *     rows 4: more than 5 values are 0 */
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

typedef struct tally {
    int n_zeros, most;
} tally;

/* Gets the tensors that it was added with, at the sizes of the run. On a GPU it gets the stream, and enqueues. */
static md_status count_zeros(void *user, md_stream stream, const md_tensor *tensor, int32_t n_tensors,
                             const int64_t *size)
{
    tally *t = (tally *)user;
    const float *h = (const float *)tensor[0].data;
    (void)stream, (void)n_tensors, (void)size;
    t->n_zeros = 0;
    for (int64_t i = 0; i < tensor[0].size[0] * tensor[0].size[1]; i++)
        t->n_zeros += h[i] == 0;
    return t->n_zeros <= t->most ? MD_OK : MD_UNSUPPORTED;
}

static int32_t add(md_sequence *sequence, const char *name, md_sequence_role role)
{
    const md_sequence_tensor tensor = {.name = name, .role = role, .size = "t, 3"};
    int32_t id = 0;
    check(md_sequence_add_tensor(&id, sequence, &tensor));
    return id;
}

int main(void)
{
    float x[] = {1, -1, 2, -2, 3, -3, -4, 4, -5, 5, -6, 6}, y[12];
    tally zeros = {.most = 5};
    md_context *context = NULL;
    md_op *relu = NULL, *twice = NULL;
    md_sequence *sequence = NULL;
    check(md_context_create(&context, &(md_context_options){.device = "host"}));
    check(md_op_create(&relu, context, "relu", NULL));
    check(md_op_create(&twice, context, "Y[t,k] = 2 * H[t,k]", NULL));
    check(md_sequence_create(&sequence, context, NULL));
    check(md_sequence_add_dim(NULL, sequence, "t", 1, 4));
    const int32_t X = add(sequence, "X", MD_SEQUENCE_INPUT), Y = add(sequence, "Y", MD_SEQUENCE_OUTPUT);
    const int32_t H = add(sequence, "H", MD_SEQUENCE_TEMPORARY);
    check(md_sequence_add_call(sequence, relu, (md_sequence_arg[]){{.id = H}, {.id = X}}, 2));
    check(md_sequence_add_callback(sequence, count_zeros, &zeros, &H, 1));
    check(md_sequence_add_call(sequence, twice, (md_sequence_arg[]){{.id = Y}, {.id = H}}, 2));
    check(md_sequence_finish(sequence));

    for (int64_t t = 2; t <= 4; t += 2) {
        const md_status status = md_sequence_run(sequence, NULL, &t, 1, (void *[]){x, y}, 2);
        if (status == MD_OK)
            printf("rows %d: %d values are 0\n", (int)t, zeros.n_zeros);
        else
            printf("rows %d: more than %d values are 0\n", (int)t, zeros.most);
    }
    md_sequence_destroy(&sequence);
    md_op_destroy(&relu);
    md_op_destroy(&twice);
    md_context_destroy(&context);
    return 0;
}
