/* Segments: how a shape runs where no graph of all its calls can serve. A graph with calls of libraries is only
 * updatable as a whole, and callbacks are in none. So callbacks, and calls that use addresses that move, are launched
 * one by one; the calls between them are graphs, which see addresses that stay. */
#include "base/status.h"
#include "sequence/shape.h"

#include <stdlib.h>
#include <string.h>

enum { MOVES_BEFORE_SEGMENTS = 2 };

/* The host's time for a launch, in us. */
enum { GRAPH_US = 5, LIBRARY_US = 10, KERNEL_US = 3 };

/* ---- What moves */

void md_sq_count_moves(md_sq_shape *shape, const md_sq *sq)
{
    for (int32_t k = 0; k < sq->n_externals; k++)
        shape->n_moves[k] += sq->word[k] != shape->word[k];
}

void md_sq_note_words(md_sq *sq)
{
    const size_t bytes = (size_t)sq->n_externals * sizeof *sq->word;
    if (sq->n_still >= 0 && memcmp(sq->last_word, sq->word, bytes) != 0) {
        for (int32_t k = 0; k < sq->n_externals; k++)
            sq->n_moves[k] += sq->last_word[k] != sq->word[k];
        sq->n_still = -1;
    }
    if (sq->n_still < 0)
        memcpy(sq->last_word, sq->word, bytes);
    if (++sq->n_still == MD_SQ_RUNS_TO_SETTLE)
        memset(sq->n_moves, 0, (size_t)sq->n_externals * sizeof *sq->n_moves);
}

void md_sq_expect_moves(md_sq_shape *shape, const md_sq *sq)
{
    for (int32_t k = 0; k < sq->n_externals; k++)
        shape->n_moves[k] = sq->n_moves[k] >= MOVES_BEFORE_SEGMENTS ? MOVES_BEFORE_SEGMENTS : 0;
}

void md_sq_drop_moves(md_sq_shape *shape, const md_sq *sq)
{
    memset(shape->n_moves, 0, (size_t)sq->n_externals * sizeof *shape->n_moves);
}

static bool moves(const md_sq *sq, const md_sq_shape *shape)
{
    for (int32_t k = 0; k < sq->n_externals; k++)
        if (shape->n_moves[k] >= MOVES_BEFORE_SEGMENTS)
            return true;
    return false;
}

/* True if a call uses an external that has moved. */
static bool is_touched(const md_sq *sq, const md_sq_shape *shape, int32_t step)
{
    const md_sq_step *s = &sq->step[step];
    for (int32_t i = 0; i < s->n_args; i++) {
        const int32_t external = md_sq_external_of(sq, &s->arg[i]);
        if (external >= 0 && shape->n_moves[external] > 0)
            return true;
    }
    return false;
}

bool md_sq_few_nodes_move(const md_sq *sq, const md_sq_shape *shape)
{
    int32_t n = 0;
    if (!shape->graph_key || (shape->graph && !shape->graph->key) || !moves(sq, shape))
        return false;
    for (int32_t i = 0; i < shape->n_parts; i++)
        n += is_touched(sq, shape, i) ? shape->part[i].n : 0;
    return n * MD_SQ_CHEAP_SHARE <= shape->n_launches;
}

/* ---- Making */

/* True if a call cannot be in a graph: a callback, an ordinary call, or one that uses an address that moves. */
static bool is_launched(const md_sq *sq, const md_sq_shape *shape, int32_t step)
{
    const md_sq_form form = shape->part[step].form;
    return form == MD_SQ_CALL || form == MD_SQ_CALLBACK || is_touched(sq, shape, step);
}

static int32_t host_us(const md_sq_part *part)
{
    return part->form == MD_SQ_PLAN ? LIBRARY_US : part->n * KERNEL_US;
}

/* Adds calls to the segments. Those that are launched one by one join the ones before them. */
static void add(md_sq_shape *shape, int32_t first, int32_t n, bool is_graph)
{
    md_sq_segment *last = shape->n_segments ? &shape->segment[shape->n_segments - 1] : NULL;
    if (last && !last->is_graph && !is_graph)
        last->n += n;
    else if (n > 0)
        shape->segment[shape->n_segments++] = (md_sq_segment){first, n, is_graph, NULL};
}

/* Divides the calls. Calls in a row that nothing moving touches are a graph if they take the host more than twice what
 * its launch takes. */
static void divide(const md_sq *sq, md_sq_shape *shape)
{
    int32_t first = 0, us = 0;
    for (int32_t i = 0; i < shape->n_parts; i++) {
        if (!is_launched(sq, shape, i)) {
            us += host_us(&shape->part[i]);
            continue;
        }
        add(shape, first, i - first, us > 2 * GRAPH_US);
        add(shape, i, 1, false);
        first = i + 1;
        us = 0;
    }
    add(shape, first, shape->n_parts - first, us > 2 * GRAPH_US);
}

/* True if there are graphs, and they fit. Other sizes give theirs up only while segments serve more runs than were
 * made: with more sizes than graphs each run would make some else. */
static bool pays(md_sq *sq, const md_sq_shape *shape)
{
    int64_t n = 0, bytes = 0;
    for (int32_t i = 0; i < shape->n_segments; i++) {
        const md_sq_segment *s = &shape->segment[i];
        n += s->is_graph;
        bytes += s->is_graph ? md_sq_graph_bytes(shape, s->first, s->n) : 0;
    }
    if (n == 0 || (!md_sq_has_room(sq, n, bytes) && sq->n_divisions > sq->count.n_split_runs))
        return false;
    return md_sq_evict_for(sq, shape, n, bytes);
}

static md_status make_graphs(md_sq *sq, md_sq_shape *shape, md_sq_run_fn run)
{
    sq->n_divisions++;
    for (int32_t i = 0; i < shape->n_segments; i++)
        if (shape->segment[i].is_graph)
            MD_TRY(md_sq_make_segment(sq, shape, &shape->segment[i], run));
    for (int32_t k = 0; k < sq->n_externals; k++)
        shape->is_moving[k] = shape->n_moves[k] > 0;
    memcpy(shape->graph_word, shape->word, (size_t)sq->n_externals * sizeof *shape->word);
    return MD_OK;
}

static bool make(md_sq *sq, md_sq_shape *shape, md_sq_run_fn run)
{
    shape->segment = calloc((size_t)shape->n_parts + 1, sizeof *shape->segment);
    if (!shape->segment)
        return false;
    divide(sq, shape);
    if (!pays(sq, shape)) {
        md_sq_drop_segments(shape, sq);
        return false;
    }
    md_sq_drop_graph(shape, sq);
    if (make_graphs(sq, shape, run) == MD_OK)
        return true;
    md_sq_drop_segments(shape, sq);
    md_sq_refuse_graph(sq, shape);
    return true;
}

/* ---- Running */

bool md_sq_segments_serve(md_sq *sq, md_sq_shape *shape)
{
    if (shape->is_capturable && shape->n_same >= MD_SQ_RUNS_TO_SETTLE)
        md_sq_drop_segments(shape, sq); /* one graph of all calls serves from now on */
    for (int32_t k = 0; k < sq->n_externals && shape->n_segments; k++)
        if (!shape->is_moving[k] && shape->graph_word[k] != shape->word[k])
            md_sq_drop_segments(shape, sq); /* an address moves that the segments' graphs contain */
    return shape->n_segments > 0;
}

bool md_sq_segments_after(md_sq *sq, md_sq_shape *shape, md_sq_run_fn run)
{
    const bool is_time = moves(sq, shape) || (!shape->is_capturable && shape->n_same > 0);
    return !shape->graph_key && is_time && make(sq, shape, run);
}
