/* Makes and frees sequences. */
#include "base/status.h"
#include "device/temporary.h"
#include "base/task/fork.h"
#include "sequence/sequence.h"
#include "sequence/shape.h"
#include "sequence/values.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_SIZES = 1024, MAX_GRAPHS = 1024, MAX_GRAPH_BYTES = 100 << 20 };

md_status md_sq_create(md_sq **out, md_ds_runtime *runtime, const md_sequence_options *options)
{
    static const md_sequence_options none = {0};
    const md_sequence_options *o = options ? options : &none;
    if (o->max_sizes < 0 || o->max_arena_bytes < 0)
        return md_fail(MD_INVALID_ARGUMENT, "option %s is negative",
                       o->max_sizes < 0 ? "max_sizes" : "max_arena_bytes");
    if (o->poisons && md_ds_is_async(runtime))
        return md_fail(MD_INVALID_ARGUMENT, "option poisons: memory is overwritten on the host device only");
    md_sq *sq = calloc(1, sizeof *sq);
    if (!sq)
        return md_fail_memory();
    md_mutex_init(&sq->lock);
    sq->runtime = runtime;
    sq->options = *o;
    sq->options.name = NULL;
    sq->options.max_sizes = o->max_sizes ? o->max_sizes : MAX_SIZES;
    sq->options.max_graphs = o->max_graphs ? o->max_graphs : MAX_GRAPHS;
    sq->options.max_graph_bytes = o->max_graph_bytes ? o->max_graph_bytes : MAX_GRAPH_BYTES;
    snprintf(sq->name, sizeof sq->name, "%s", o->name ? o->name : "sequence");
    sq->values = md_sq_values_create();
    sq->shapes = md_table_create();
    if (!sq->values || !sq->shapes) {
        md_sq_destroy(&sq);
        return md_fail_memory();
    }
    *out = sq;
    return MD_OK;
}

const char *md_sq_tensor_name(char out[32], const md_sq *sq, int32_t tensor)
{
    if (sq->tensor[tensor].name)
        snprintf(out, 32, "%s", sq->tensor[tensor].name);
    else
        snprintf(out, 32, "%d", (int)tensor + 1);
    return out;
}

void md_sq_close(md_sq *sq)
{
    if (!sq->runtime)
        return;
    md_dev *dev = sq->runtime->dev;
    md_sq_evict_all(sq);
    /* once it is freed, the caller's memory may serve others at once */
    if (dev->memory.alloc && (sq->arena || sq->retired))
        (void)dev->ops->sync(dev, sq->has_run ? sq->last_stream : NULL);
    md_dev_give_temporary(dev, NULL, sq->arena, sq->arena_bytes);
    while (sq->retired) {
        struct md_sq_retired *r = sq->retired;
        sq->retired = r->next;
        md_dev_give_temporary(dev, NULL, r->p, r->n_bytes);
        free(r);
    }
    if (sq->counters)
        dev->ops->free(dev, sq->counters);
    if (sq->mark)
        dev->ops->mark_destroy(dev, sq->mark);
    sq->arena = sq->counters = NULL;
    sq->mark = NULL;
    sq->runtime = NULL;
}

void md_sq_free_run_state(md_sq *sq)
{
    free(sq->value);
    free(sq->now);
    free(sq->at);
    free(sq->word);
    free(sq->last_word);
    free(sq->n_moves);
    sq->value = sq->at = NULL;
    sq->now = NULL;
    sq->word = sq->last_word = NULL;
    sq->n_moves = NULL;
}

static void free_build(md_sq *sq)
{
    for (int32_t i = 0; i < sq->n_dims; i++)
        free(sq->dim[i].name);
    for (int32_t i = 0; i < sq->n_tensors; i++)
        free(sq->tensor[i].name);
    for (int32_t i = 0; i < sq->n_steps; i++)
        free(sq->step[i].arg);
    free(sq->tensor);
    free(sq->memory);
    free(sq->step);
    free(sq->external);
    md_sq_free_run_state(sq);
}

void md_sq_destroy(md_sq **sequence)
{
    md_sq *sq = *sequence;
    md_sq_close(sq);
    free_build(sq);
    md_sq_values_destroy(&sq->values);
    md_table_destroy(&sq->shapes, NULL);
    md_mutex_finish(&sq->lock);
    free(sq);
    *sequence = NULL;
}
