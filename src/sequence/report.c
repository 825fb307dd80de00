/* What a sequence says of itself: counters, and a list of its calls and tensors at the sizes of the last run. */
#include "base/dtype.h"
#include "base/status.h"
#include "base/strbuf.h"
#include "dispatch/select/fused.h"
#include "sequence/shape.h"
#include "sequence/values.h"

#include <stdlib.h>
#include <string.h>

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

static void print_call(md_strbuf *out, const md_sq *sq, const md_sq_shape *shape, int32_t i, bool json)
{
    const md_sq_part *part = &shape->part[i];
    const md_ds_op *op = part->op ? part->op : sq->step[i].op;
    if (json) {
        md_strbuf_printf(out, "%s{\"call\":%d,\"op\":", i ? "," : "", (int)i);
        md_strbuf_json(out, op ? op->name : "");
        md_strbuf_printf(out, ",\"form\":\"%s\",\"launches\":%d,\"variants\":[", form_name(part->form), (int)part->n);
    } else {
        md_strbuf_printf(out, "  %-4d %-16s %-18s", (int)i, op ? op->name : "", form_name(part->form));
    }
    for (int32_t s = 0; part->plan && s < op->n_stages; s++) {
        const char *name = md_ds_pick_name(op, part->plan, s);
        if (json && s)
            md_strbuf_add(out, ",");
        if (json)
            md_strbuf_json(out, name);
        else
            md_strbuf_printf(out, " %s", name);
    }
    md_strbuf_add(out, json ? "]}" : "\n");
}

static void print_size(md_strbuf *out, const md_sq *sq, const md_sq_tensor *t)
{
    for (int32_t a = 0; a < t->rank; a++)
        md_strbuf_printf(out, "%s%s", a ? ", " : "", md_sq_values_text(sq->values, t->size[a]));
}

static void print_memory(md_strbuf *out, const md_sq *sq, const md_sq_shape *shape, int32_t m, bool json)
{
    const md_sq_memory *x = &sq->memory[m];
    const md_sq_tensor *t = &sq->tensor[x->tensor];
    static const char *const role[] = {"temporary", "input", "output", "constant"};
    char name[32];
    md_sq_tensor_name(name, sq, x->tensor);
    if (json) {
        md_strbuf_printf(out, "%s{\"tensor\":", m ? "," : "");
        md_strbuf_json(out, name);
        md_strbuf_printf(out, ",\"role\":\"%s\",\"dtype\":\"%s\",\"size\":\"", role[x->role], md_dtype_name(t->dtype));
        print_size(out, sq, t);
        md_strbuf_printf(out, "\",\"bytes\":%zu", shape->bytes[m]);
    } else {
        md_strbuf_printf(out, "  %-16s %-9s %-4s %12zu bytes  [", name, role[x->role], md_dtype_name(t->dtype),
                         shape->bytes[m]);
        print_size(out, sq, t);
        md_strbuf_add(out, "]");
    }
    if (x->role == MD_SEQUENCE_TEMPORARY && x->first >= 0)
        md_strbuf_printf(
            out, json ? ",\"offset\":%zu,\"first\":%d,\"last\":%d,\"in_place\":%s" : " at %zu, calls %d to %d%s",
            shape->offset[x->place], (int)x->first, (int)x->last,
            json ? (x->place != m ? "true" : "false") : (x->place != m ? ", in place" : ""));
    md_strbuf_add(out, json ? "}" : "\n");
}

/* How the calls are divided where addresses move. */
static void print_segments(md_strbuf *out, const md_sq_shape *shape, bool json)
{
    int32_t n_graphs = 0, n_calls = 0;
    for (int32_t i = 0; i < shape->n_segments; i++) {
        n_graphs += shape->segment[i].is_graph;
        n_calls += shape->segment[i].is_graph ? 0 : shape->segment[i].n;
    }
    if (shape->n_segments)
        md_strbuf_printf(out,
                         json ? ",\"segment_graphs\":%d,\"launched_calls\":%d"
                              : " of all calls, but %d of some, and %d calls are launched",
                         (int)n_graphs, (int)n_calls);
}

static void print_head(md_strbuf *out, const md_sq *sq, const md_sq_shape *shape, bool json)
{
    if (json) {
        md_strbuf_add(out, "{\"sequence\":");
        md_strbuf_json(out, sq->name);
        md_strbuf_add(out, ",\"sizes\":{");
    } else {
        md_strbuf_printf(out, "sequence %s at", sq->name);
    }
    for (int32_t d = 0; d < sq->n_dims; d++)
        md_strbuf_printf(out, json ? "%s\"%s\":%lld" : "%s %s=%lld", d ? "," : "", sq->dim[d].name,
                         (long long)shape->size[d]);
    md_strbuf_printf(out,
                     json ? "},\"launches\":%d,\"arena_bytes\":%zu,\"sum_bytes\":%zu,\"graph\":%s"
                          : ": %d launches, arena %zu bytes, %zu without sharing, %s",
                     (int)shape->n_launches, sq->arena_bytes, shape->sum_bytes,
                     json ? (shape->graph ? "true" : "false") : (shape->graph ? "one graph" : "no graph"));
    if (shape->graph)
        md_strbuf_printf(out,
                         json ? ",\"graph_kernels\":%d,\"graph_early\":%d"
                              : " of %d kernels, %d of which may begin before the one before ends",
                         (int)shape->graph->facts.n_kernels, (int)shape->graph->facts.n_early);
    print_segments(out, shape, json);
    md_strbuf_add(out, json ? "" : "\n");
}

/* What is kept, and its bounds. */
static void print_kept(md_strbuf *out, const md_sq *sq, bool json)
{
    md_strbuf_printf(out,
                     json ? ",\"kept\":{\"sizes\":%lld,\"max_sizes\":%lld,\"choices\":%lld,\"graphs\":%lld,"
                            "\"max_graphs\":%lld,\"graph_bytes\":%lld,\"max_graph_bytes\":%lld}"
                          : "kept: %lld of %lld sizes with %lld choices of kernels, %lld of %lld graphs, about %lld of "
                            "%lld bytes\n",
                     (long long)sq->count.n_sizes, (long long)sq->options.max_sizes, (long long)count_choices(sq),
                     (long long)sq->n_graphs, (long long)sq->options.max_graphs, (long long)sq->graph_bytes,
                     (long long)sq->options.max_graph_bytes);
}

md_status md_sq_explain(md_strbuf *out, md_sq *sq, bool json)
{
    const md_sq_shape *shape = sq->last;
    if (!shape)
        return md_fail(MD_INVALID_ARGUMENT, "sequence %s has not been run or prepared", sq->name);
    print_head(out, sq, shape, json);
    print_kept(out, sq, json);
    md_strbuf_add(out, json ? ",\"calls\":[" : "calls:\n");
    for (int32_t i = 0; i < shape->n_parts; i++)
        print_call(out, sq, shape, i, json);
    md_strbuf_add(out, json ? "],\"tensors\":[" : "tensors:\n");
    for (int32_t m = 0; m < sq->n_memories; m++)
        print_memory(out, sq, shape, m, json);
    if (json)
        md_strbuf_add(out, "]}\n");
    return MD_OK;
}
