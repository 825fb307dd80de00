/* Graphs of a sequence: one a shape, or one for each of its segments (segments.c). They are made after the launches of
 * a run are enqueued, so that making them takes no time of the device. A graph is reused by shapes of the same kernels:
 * only nodes whose parameters differ are changed. sequence/README.md has the measured costs that these rules follow
 * from. */
#include "base/status.h"
#include "sequence/shape.h"

#include <stdlib.h>
#include <string.h>

enum { CHANGES_AT_ONCE = 32 };

int64_t md_sq_graph_bytes(const md_sq_shape *shape, int32_t first, int32_t n)
{
    enum { KERNEL_BYTES = 7168 };
    int64_t n_kernels = 0;
    for (const md_sq_part *p = &shape->part[first]; p < &shape->part[first + n]; p++)
        n_kernels += p->form == MD_SQ_PLAN ? 2 : p->n; /* a call of a library launches about two kernels */
    return n_kernels * KERNEL_BYTES;
}

static int64_t bytes_of_all(const md_sq_shape *shape)
{
    return md_sq_graph_bytes(shape, 0, shape->n_parts);
}

static uint64_t mix(uint64_t digest, uint64_t word)
{
    return (digest ^ word) * 0x9e3779b97f4a7c15u;
}

uint64_t md_sq_graph_key(const md_sq_shape *shape)
{
    uint64_t key = 0x5eed;
    for (int32_t i = 0; i < shape->n_parts; i++)
        if (shape->part[i].form != MD_SQ_LAUNCHES && shape->part[i].form != MD_SQ_NOTHING)
            return 0;
    for (int32_t i = 0; i < shape->n_launches; i++) {
        const md_sq_launch *l = &shape->launch[i];
        const md_kn_geometry *g = &l->geometry;
        if (g->blocks <= 0)
            continue;
        key = mix(key, (uint64_t)(uintptr_t)l->kernel);
        key = mix(key, (uint64_t)g->cluster << 2 | (uint64_t)g->is_cooperative << 1 | (uint64_t)g->overlaps);
    }
    return key | 1;
}

/* ---- Lifetime */

static md_sq_graph *create(md_sq *sq, int64_t bytes)
{
    md_sq_graph *g = calloc(1, sizeof *g);
    if (!g)
        return NULL;
    g->bytes = bytes;
    sq->n_graphs++;
    sq->graph_bytes += bytes;
    return g;
}

static void destroy(md_sq *sq, md_sq_graph *g)
{
    md_dev *dev = sq->runtime->dev;
    if (g->made)
        dev->ops->graph_destroy(dev, g->made);
    sq->n_graphs--;
    sq->graph_bytes -= g->bytes;
    for (int32_t i = 0; i < g->n; i++)
        free(g->launch[i].params);
    free(g->launch);
    free(g);
}

void md_sq_drop_graph(md_sq_shape *shape, md_sq *sq)
{
    md_sq_graph *g = shape->graph;
    shape->graph = NULL;
    if (!g)
        return;
    if (!g->key) {
        destroy(sq, g);
        return;
    }
    g->next = sq->spare;
    sq->spare = g;
}

void md_sq_drop_segments(md_sq_shape *shape, md_sq *sq)
{
    for (int32_t i = 0; i < shape->n_segments; i++)
        if (shape->segment[i].graph)
            destroy(sq, shape->segment[i].graph);
    free(shape->segment);
    shape->segment = NULL;
    shape->n_segments = 0;
}

void md_sq_drop_spares(md_sq *sq)
{
    while (sq->spare) {
        md_sq_graph *g = sq->spare;
        sq->spare = g->next;
        destroy(sq, g);
    }
}

/* Takes a spare graph (one that no shape has) of the same kernels as the shape's; NULL: there is none. */
static md_sq_graph *take_spare(md_sq *sq, uint64_t key)
{
    for (md_sq_graph **at = &sq->spare; *at && key; at = &(*at)->next) {
        md_sq_graph *g = *at;
        if (g->key != key)
            continue;
        *at = g->next;
        return g;
    }
    return NULL;
}

/* Takes the graph of the least recently used shape with the same kernels, unless that shape is in the newer half. */
static md_sq_graph *evict_for_reuse(md_sq *sq, const md_sq_shape *shape)
{
    int64_t n_seen = 0;
    for (md_sq_shape *s = sq->oldest; s && n_seen <= sq->n_graphs / 2; s = s->newer) {
        md_sq_graph *g = s->graph;
        n_seen += g != NULL;
        if (!g || s == shape || !shape->graph_key || g->key != shape->graph_key)
            continue;
        s->graph = NULL;
        return g;
    }
    return NULL;
}

bool md_sq_has_room(const md_sq *sq, int64_t n, int64_t bytes)
{
    return sq->n_graphs + n <= sq->options.max_graphs && sq->graph_bytes + bytes <= sq->options.max_graph_bytes;
}

bool md_sq_evict_for(md_sq *sq, const md_sq_shape *shape, int64_t n, int64_t bytes)
{
    if (n > sq->options.max_graphs || bytes > sq->options.max_graph_bytes)
        return false;
    while (sq->spare && !md_sq_has_room(sq, n, bytes)) {
        md_sq_graph *g = sq->spare;
        sq->spare = g->next;
        destroy(sq, g);
    }
    for (md_sq_shape *s = sq->oldest; s && !md_sq_has_room(sq, n, bytes); s = s->newer) {
        md_sq_graph *g = s->graph;
        if (s == shape)
            continue;
        s->graph = NULL;
        if (g)
            destroy(sq, g);
        md_sq_drop_segments(s, sq);
    }
    return true;
}

/* ---- Changing */

/* Place and size of blocks are what launches of one key can differ in. */
static bool is_same(const md_sq_launch *a, const md_sq_launch *b)
{
    const md_kn_geometry *geometry = &a->geometry, *y = &b->geometry;
    return a->n_params == b->n_params && geometry->scratch_bytes == y->scratch_bytes &&
           !memcmp(geometry->grid, y->grid, sizeof geometry->grid) &&
           !memcmp(geometry->block, y->block, sizeof geometry->block) &&
           !memcmp(a->params, b->params, (size_t)a->n_params * sizeof *a->params);
}

/* The next of the shape's launches, from number *i on, that is a node of its graph; NULL: there is none. */
static const md_sq_launch *next_launch(const md_sq_shape *shape, int32_t *i)
{
    while (*i < shape->n_launches && shape->launch[*i].geometry.blocks <= 0)
        (*i)++;
    return *i < shape->n_launches ? &shape->launch[(*i)++] : NULL;
}

static int32_t count_changes(const md_sq_graph *g, const md_sq_shape *shape)
{
    int32_t n = 0, at = 0;
    for (int32_t i = 0; at < g->n; at++) {
        const md_sq_launch *l = next_launch(shape, &i);
        n += !l || !is_same(l, &g->launch[at]);
    }
    return n;
}

static void keep(md_sq_launch *to, const md_sq_launch *from)
{
    to->geometry = from->geometry;
    memcpy(to->params, from->params, (size_t)from->n_params * sizeof *from->params);
}

/* Gives the nodes of the graph that differ from the shape's launches the launches' parameters. */
static md_status change(md_sq *sq, md_sq_graph *g, const md_sq_shape *shape, bool uploads)
{
    md_dev *dev = sq->runtime->dev;
    md_dev_graph_change list[CHANGES_AT_ONCE];
    int32_t n = 0, i = 0;
    for (int32_t at = 0; at < g->n; at++) {
        const md_sq_launch *l = next_launch(shape, &i);
        if (!l || l->n_params != g->launch[at].n_params)
            return md_fail(MD_INTERNAL, "a graph of sequence %s has other kernels than its shape", sq->name);
        if (is_same(l, &g->launch[at]))
            continue;
        keep(&g->launch[at], l);
        list[n++] = (md_dev_graph_change){at, l->kernel, &l->geometry, {l->params, l->n_params}};
        if (n == CHANGES_AT_ONCE) {
            MD_TRY(dev->ops->graph_change(dev, g->made, list, n, false));
            n = 0;
        }
    }
    MD_TRY(dev->ops->graph_change(dev, g->made, list, n, uploads));
    memcpy(shape->graph_word, shape->word, (size_t)sq->n_externals * sizeof *shape->word);
    sq->count.n_updates++;
    return MD_OK;
}

/* ---- Making */

/* Keeps copies of the launches as they stand in the graph, to find the changed ones later. Where memory is short the
 * graph cannot be changed, only made anew. */
static void remember(md_sq_graph *g, const md_sq_shape *shape)
{
    const md_sq_launch *l;
    int32_t i = 0;
    g->launch = calloc((size_t)shape->n_launches + 1, sizeof *g->launch);
    while (g->launch && (l = next_launch(shape, &i)) != NULL) {
        md_sq_launch *own = &g->launch[g->n];
        *own = *l;
        own->params = malloc(((size_t)l->n_params + 1) * sizeof *own->params);
        if (!own->params) {
            g->key = 0;
            return;
        }
        g->n++;
        keep(own, l);
    }
    if (!g->launch)
        g->key = 0;
}

typedef struct body {
    md_sq *sq;
    const md_sq_shape *shape;
    int32_t first, n;
    md_sq_run_fn run;
} body;

static md_status run_body(void *user, md_stream stream)
{
    const body *b = user;
    return b->run(b->sq, b->shape, b->first, b->n, stream);
}

/* Captures calls as a graph, or updates a graph that has other calls. If it fails, the graph is destroyed. */
static md_status capture(md_sq_graph **graph, body *calls)
{
    md_sq *sq = calls->sq;
    md_dev *dev = sq->runtime->dev;
    md_sq_graph *g = *graph;
    bool is_updated = false;
    const md_status status = dev->ops->graph_make(&g->made, &is_updated, dev, run_body, calls);
    if (status != MD_OK) {
        *graph = NULL;
        destroy(sq, g);
        return status;
    }
    dev->ops->graph_facts(&g->facts, g->made);
    sq->count.n_builds += !is_updated;
    sq->count.n_updates += is_updated;
    return MD_OK;
}

static md_status make(md_sq *sq, md_sq_shape *shape, md_sq_run_fn run)
{
    const bool is_new = !shape->graph;
    if (is_new) {
        (void)md_sq_evict_for(sq, shape, 1, bytes_of_all(shape));
        shape->graph = create(sq, bytes_of_all(shape));
    }
    if (!shape->graph)
        return md_fail_memory();
    MD_TRY(capture(&shape->graph, &(body){sq, shape, 0, shape->n_parts, run}));
    md_sq_graph *g = shape->graph;
    if (is_new && shape->graph_key && g->facts.can_change) {
        g->key = shape->graph_key;
        remember(g, shape);
    }
    if (g->key && g->facts.n_kernels != g->n)
        g->key = 0;
    memcpy(shape->graph_word, shape->word, (size_t)sq->n_externals * sizeof *shape->word);
    return MD_OK;
}

md_status md_sq_make_segment(md_sq *sq, const md_sq_shape *shape, md_sq_segment *segment, md_sq_run_fn run)
{
    segment->graph = create(sq, md_sq_graph_bytes(shape, segment->first, segment->n));
    return segment->graph ? capture(&segment->graph, &(body){sq, shape, segment->first, segment->n, run})
                          : md_fail_memory();
}

/* The shape's own graph, a spare one, or an old one, with the shape's parameters. False if there is none. */
static bool reuse(md_sq *sq, md_sq_shape *shape)
{
    if (!shape->graph)
        shape->graph = take_spare(sq, shape->graph_key);
    if (!shape->graph && !md_sq_has_room(sq, 1, bytes_of_all(shape)))
        shape->graph = evict_for_reuse(sq, shape);
    md_sq_graph *g = shape->graph;
    if (!g || !g->key)
        return false;
    if (g->key == shape->graph_key && change(sq, g, shape, true) == MD_OK)
        return true;
    shape->graph = NULL;
    destroy(sq, g);
    return false;
}

/* ---- Running */

bool md_sq_can_have_graph(const md_sq *sq, const md_sq_shape *shape)
{
    if (!sq->runtime->dev->ops->graph_make || sq->options.max_graphs < 1 || !shape->is_final || shape->has_no_graph)
        return false;
    const int64_t bytes = bytes_of_all(shape);
    return bytes > 0 && bytes <= sq->options.max_graph_bytes;
}

bool md_sq_graph_serves(md_sq *sq, md_sq_shape *shape)
{
    md_sq_graph *g = shape->graph;
    if (!g)
        return false;
    if (!memcmp(shape->graph_word, shape->word, (size_t)sq->n_externals * sizeof *shape->word))
        return true;
    if (!g->key || count_changes(g, shape) * MD_SQ_CHEAP_SHARE > g->n)
        return false;
    if (change(sq, g, shape, false) == MD_OK)
        return true;
    shape->graph = NULL;
    destroy(sq, g);
    return false;
}

void md_sq_refuse_graph(md_sq *sq, md_sq_shape *shape)
{
    md_log_at(sq->runtime->log, MD_LOG_WARN, "sequence %s: no graph, launches serve: %s", sq->name, md_last_error());
    shape->has_no_graph = true;
    sq->count.n_failures++;
}

void md_sq_graph_after(md_sq *sq, md_sq_shape *shape, md_sq_run_fn run)
{
    if (!reuse(sq, shape) && make(sq, shape, run) != MD_OK)
        md_sq_refuse_graph(sq, shape);
}
