/* What a sequence says of itself: counters, and a list of its calls and tensors at the sizes of the last run. */
#include "base/json.h"
#include "base/status.h"
#include "base/strbuf.h"
#include "dispatch/select/select.h"
#include "sequence/shape.h"
#include "sequence/values.h"

#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static int64_t count_choices(const md_sq *sq)
{
    uint64_t *choice = malloc(((size_t)sq->count.n_sizes + 1) * sizeof *choice);
    int64_t n = 0, n_different = 0;
    if (!choice)
        return 0;
    for (const md_sq_shape *s = sq->newest; s; s = s->older)
        choice[n++] = s->choice;
    qsort(choice, (size_t)n, sizeof *choice, by_value);
    for (int64_t i = 0; i < n; i++)
        n_different += i == 0 || choice[i] != choice[i - 1];
    free(choice);
    return n_different;
}

void md_sq_count(md_sequence_counters *out, md_sq *sq)
{
    for (md_sq_shape *s = sq->newest; s; s = s->older)
        md_sq_shape_flush(s);
    *out = sq->count;
    out->n_graphs = sq->n_graphs;
    out->graph_bytes = sq->graph_bytes;
    out->arena_bytes = (int64_t)sq->arena_bytes;
    out->n_choices = count_choices(sq);
    out->n_launches = sq->last ? sq->last->n_launches : 0;
    out->sum_bytes = sq->last ? (int64_t)sq->last->sum_bytes : 0;
}

/* ---- Explaining */

static const char *form_name(md_sq_form form)
{
    static const char *const name[] = {"nothing to compute", "launches", "plan", "ordinary call", "callback"};
    return name[form];
}

static json_t *call_json(const md_sq *sq, const md_sq_shape *shape, int32_t i)
{
    const md_sq_part *part = &shape->part[i];
    const md_ds_op *op = part->op ? part->op : sq->step[i].op;
    json_t *variants = json_array();
    for (int32_t s = 0; part->plan && s < op->n_stages; s++) {
        variants = md_json_add(variants, json_string(md_ds_pick_name(op, part->plan, s)));
    }
    return json_pack("{s:i, s:o, s:s, s:i, s:o}", "call", i, "op", md_json_text(op ? op->name : ""), "form",
                     form_name(part->form), "launches", part->n, "variants", variants);
}

static json_t *size_json(const md_sq *sq, const md_sq_tensor *t)
{
    md_strbuf text = {0};
    for (int32_t a = 0; a < t->rank; a++)
        md_strbuf_printf(&text, "%s%s", a ? ", " : "", md_sq_values_text(sq->values, t->size[a]));
    json_t *j = text.failed ? NULL : md_json_text(md_strbuf_text(&text));
    md_strbuf_finish(&text);
    return j;
}

static json_t *tensor_json(const md_sq *sq, const md_sq_shape *shape, int32_t m)
{
    const md_sq_memory *memory = &sq->memory[m];
    const md_sq_tensor *t = &sq->tensor[memory->tensor];
    static const char *const role[] = {"temporary", "input", "output", "constant"};
    char name[32];
    md_sq_tensor_name(name, sq, memory->tensor);
    json_t *j =
        json_pack("{s:o, s:s, s:s, s:o, s:I}", "tensor", md_json_text(name), "role", role[memory->role], "dtype",
                  md_dtype_name(t->dtype), "size", size_json(sq, t), "bytes", (json_int_t)shape->bytes[m]);
    if (memory->role != MD_SEQUENCE_TEMPORARY || memory->first < 0)
        return j;
    return md_json_merge(j, json_pack("{s:I, s:i, s:i, s:b}", "offset", (json_int_t)shape->offset[memory->place],
                                      "first", memory->first, "last", memory->last, "in_place", memory->place != m));
}

/* The segments of the last shape: which calls are in a graph and which are launched one by one. */
static json_t *segments_json(const md_sq_shape *shape)
{
    int32_t n_graphs = 0, n_calls = 0;
    for (int32_t i = 0; i < shape->n_segments; i++) {
        n_graphs += shape->segment[i].is_graph;
        n_calls += shape->segment[i].is_graph ? 0 : shape->segment[i].n;
    }
    return json_pack("{s:i, s:i}", "segment_graphs", n_graphs, "launched_calls", n_calls);
}

static json_t *head_json(const md_sq *sq, const md_sq_shape *shape)
{
    json_t *sizes = json_object();
    bool ok = sizes;
    for (int32_t d = 0; d < sq->n_dims && ok; d++)
        ok = json_object_set_new(sizes, sq->dim[d].name, json_integer((json_int_t)shape->size[d])) == 0;
    json_t *j = json_pack("{s:o, s:o, s:i, s:I, s:I, s:b}", "sequence", md_json_text(sq->name), "sizes", sizes,
                          "launches", shape->n_launches, "arena_bytes", (json_int_t)sq->arena_bytes, "sum_bytes",
                          (json_int_t)shape->sum_bytes, "graph", shape->graph != NULL);
    if (shape->graph)
        j = md_json_merge(j, json_pack("{s:i, s:i}", "graph_kernels", shape->graph->facts.n_kernels, "graph_early",
                                       shape->graph->facts.n_early));
    if (shape->n_segments)
        j = md_json_merge(j, segments_json(shape));
    if (ok)
        return j;
    json_decref(j);
    return NULL;
}

/* How many sizes and graphs are in memory, and how many may be. */
static json_t *kept_json(const md_sq *sq)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "sizes", (json_int_t)sq->count.n_sizes, "max_sizes",
                     (json_int_t)sq->options.max_sizes, "choices", (json_int_t)count_choices(sq), "graphs",
                     (json_int_t)sq->n_graphs, "max_graphs", (json_int_t)sq->options.max_graphs, "graph_bytes",
                     (json_int_t)sq->graph_bytes, "max_graph_bytes", (json_int_t)sq->options.max_graph_bytes);
}

static json_t *report(const md_sq *sq, const md_sq_shape *shape)
{
    json_t *calls = json_array(), *tensors = json_array();
    for (int32_t i = 0; i < shape->n_parts; i++)
        calls = md_json_add(calls, call_json(sq, shape, i));
    for (int32_t m = 0; m < sq->n_memories; m++)
        tensors = md_json_add(tensors, tensor_json(sq, shape, m));
    return md_json_merge(head_json(sq, shape),
                         json_pack("{s:o, s:o, s:o}", "kept", kept_json(sq), "calls", calls, "tensors", tensors));
}

/* ---- The text of the report */

static void print_head(md_strbuf *out, const json_t *j)
{
    const char *name;
    json_t *size;
    md_strbuf_printf(out, "sequence %s at", md_json_text_at(j, "sequence"));
    json_object_foreach(json_object_get(j, "sizes"), name, size)
        md_strbuf_printf(out, " %s=%lld", name, (long long)json_integer_value(size));
    md_strbuf_printf(out, ": %lld launches, arena %lld bytes, %lld without sharing, %s",
                     md_json_integer_at(j, "launches"), md_json_integer_at(j, "arena_bytes"),
                     md_json_integer_at(j, "sum_bytes"), md_json_is(j, "graph") ? "one graph" : "no graph");
    if (md_json_is(j, "graph"))
        md_strbuf_printf(out, " of %lld kernels, %lld of which may begin before the one before ends",
                         md_json_integer_at(j, "graph_kernels"), md_json_integer_at(j, "graph_early"));
    if (json_object_get(j, "segment_graphs"))
        md_strbuf_printf(out, " of all calls, but %lld of some, and %lld calls are launched",
                         md_json_integer_at(j, "segment_graphs"), md_json_integer_at(j, "launched_calls"));
    md_strbuf_add(out, "\n");
}

static void print_call(md_strbuf *out, size_t i, const json_t *call)
{
    const json_t *variants = json_object_get(call, "variants");
    md_strbuf_printf(out, "  %-4zu %-16s %-18s", i, md_json_text_at(call, "op"), md_json_text_at(call, "form"));
    for (size_t s = 0; s < json_array_size(variants); s++)
        md_strbuf_printf(out, " %s", json_string_value(json_array_get(variants, s)));
    md_strbuf_add(out, "\n");
}

static void print_tensor(md_strbuf *out, const json_t *t)
{
    md_strbuf_printf(out, "  %-16s %-9s %-4s %12lld bytes  [%s]", md_json_text_at(t, "tensor"),
                     md_json_text_at(t, "role"), md_json_text_at(t, "dtype"), md_json_integer_at(t, "bytes"),
                     md_json_text_at(t, "size"));
    if (json_object_get(t, "offset"))
        md_strbuf_printf(out, " at %lld, calls %lld to %lld%s", md_json_integer_at(t, "offset"),
                         md_json_integer_at(t, "first"), md_json_integer_at(t, "last"),
                         md_json_is(t, "in_place") ? ", in place" : "");
    md_strbuf_add(out, "\n");
}

static void print_report(md_strbuf *out, const json_t *j)
{
    const json_t *kept = json_object_get(j, "kept"), *calls = json_object_get(j, "calls"),
                 *tensors = json_object_get(j, "tensors");
    print_head(out, j);
    md_strbuf_printf(out,
                     "kept: %lld of %lld sizes with %lld choices of kernels, %lld of %lld graphs, about %lld of %lld "
                     "bytes\ncalls:\n",
                     md_json_integer_at(kept, "sizes"), md_json_integer_at(kept, "max_sizes"),
                     md_json_integer_at(kept, "choices"), md_json_integer_at(kept, "graphs"),
                     md_json_integer_at(kept, "max_graphs"), md_json_integer_at(kept, "graph_bytes"),
                     md_json_integer_at(kept, "max_graph_bytes"));
    for (size_t i = 0; i < json_array_size(calls); i++)
        print_call(out, i, json_array_get(calls, i));
    md_strbuf_add(out, "tensors:\n");
    for (size_t m = 0; m < json_array_size(tensors); m++)
        print_tensor(out, json_array_get(tensors, m));
}

md_status md_sq_explain(md_strbuf *out, md_sq *sq, bool json)
{
    const md_sq_shape *shape = sq->last;
    if (!shape)
        return md_fail(MD_INVALID_ARGUMENT, "sequence %s has not been run or prepared", sq->name);
    return md_json_report(out, report(sq, shape), json, print_report);
}
