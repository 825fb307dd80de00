/* Graphs of a sequence: one a shape that came again, made after its launches are enqueued, so that making it takes no
 * time of the device. A graph is reused by shapes of the same kernels: only nodes whose parameters differ are changed.
 * sequence/README.md has the measured costs that these rules follow from. */
#include "base/status.h"
#include "sequence/shape.h"

#include <stdlib.h>
#include <string.h>

/* A graph is made when a shape runs for the second time in a row with the same addresses. So many changed nodes, of
 * all, cost less than a chain of launches. */
enum { RUNS_BEFORE_GRAPH = 1, CHEAP_SHARE = 4, CHANGES_AT_ONCE = 32 };

int64_t md_sq_graph_bytes(const md_sq_shape *shape)
{
    enum { KERNEL_BYTES = 7168 };
    int64_t n = shape->n_launches;
    for (int32_t i = 0; i < shape->n_parts; i++)
        n += shape->part[i].form == MD_SQ_PLAN ? 2 : 0; /* of a library */
    return n * KERNEL_BYTES;
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

void md_sq_drop_spares(md_sq *sq)
{
    while (sq->spare) {
        md_sq_graph *g = sq->spare;
        sq->spare = g->next;
        destroy(sq, g);
    }
}

/* A graph of the shape's kernels that no shape has. */
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

/* The graph of the shape of these kernels that was not used for longest, if it is in the older half of all. */
static md_sq_graph *take_old(md_sq *sq, const md_sq_shape *shape)
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

static bool has_room(const md_sq *sq, int64_t bytes)
{
    return sq->n_graphs < sq->options.max_graphs && sq->graph_bytes + bytes <= sq->options.max_graph_bytes;
}

/* Gives up the graphs that were not used for longest until one more fits. */
static void make_room(md_sq *sq, const md_sq_shape *shape)
{
    const int64_t bytes = md_sq_graph_bytes(shape);
    while (sq->spare && !has_room(sq, bytes)) {
        md_sq_graph *g = sq->spare;
        sq->spare = g->next;
        destroy(sq, g);
    }
    for (md_sq_shape *s = sq->oldest; s && !has_room(sq, bytes); s = s->newer) {
        md_sq_graph *g = s->graph;
        if (!g || s == shape)
            continue;
        s->graph = NULL;
        destroy(sq, g);
    }
}

/* ---- Changing */

/* Place and size of blocks are what launches of one key can differ in. */
static bool is_same(const md_sq_launch *a, const md_sq_launch *b)
{
    const md_kn_geometry *x = &a->geometry, *y = &b->geometry;
    return a->n_params == b->n_params && x->scratch_bytes == y->scratch_bytes &&
           !memcmp(x->grid, y->grid, sizeof x->grid) && !memcmp(x->block, y->block, sizeof x->block) &&
           !memcmp(a->params, b->params, (size_t)a->n_params * sizeof *a->params);
}

/* The next launch of the shape that is in its graph, from *i on; NULL: there is none. */
static const md_sq_launch *next_launch(const md_sq_shape *shape, int32_t *i)
{
    while (*i < shape->n_launches && shape->launch[*i].geometry.blocks <= 0)
        ++*i;
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

/* Changes the nodes that differ from the shape's launches. */
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

/* Copies of the launches, to find out later which have changed. Without memory the graph cannot be changed. */
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

static md_status make(md_sq *sq, md_sq_shape *shape, md_status (*body)(void *user, md_stream stream), void *user)
{
    md_dev *dev = sq->runtime->dev;
    md_sq_graph *g = shape->graph;
    bool is_updated = false;
    if (!g) {
        make_room(sq, shape);
        g = calloc(1, sizeof *g);
        if (!g)
            return md_fail_memory();
        g->bytes = md_sq_graph_bytes(shape);
        sq->n_graphs++;
        sq->graph_bytes += g->bytes;
    }
    const bool is_new = !g->made;
    const md_status status = dev->ops->graph_make(&g->made, &is_updated, dev, body, user);
    if (status != MD_OK) {
        shape->graph = NULL;
        destroy(sq, g);
        return status;
    }
    dev->ops->graph_facts(&g->facts, g->made);
    shape->graph = g;
    if (is_new && shape->graph_key && g->facts.can_change) {
        g->key = shape->graph_key;
        remember(g, shape);
    }
    if (g->key && g->facts.n_kernels != g->n)
        g->key = 0;
    memcpy(shape->graph_word, shape->word, (size_t)sq->n_externals * sizeof *shape->word);
    sq->count.n_builds += !is_updated;
    sq->count.n_updates += is_updated;
    return MD_OK;
}

/* The shape's own graph, a spare one, or an old one, with the shape's parameters. False if there is none. */
static bool reuse(md_sq *sq, md_sq_shape *shape)
{
    if (!shape->graph)
        shape->graph = take_spare(sq, shape->graph_key);
    if (!shape->graph && !has_room(sq, md_sq_graph_bytes(shape)))
        shape->graph = take_old(sq, shape);
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
    return sq->runtime->dev->ops->graph_make && sq->options.max_graphs >= 1 && shape->is_capturable &&
           !shape->has_no_graph && shape->n_launches > 0 && md_sq_graph_bytes(shape) <= sq->options.max_graph_bytes;
}

bool md_sq_graph_serves(md_sq *sq, md_sq_shape *shape)
{
    md_sq_graph *g = shape->graph;
    if (!g)
        return false;
    if (!memcmp(shape->graph_word, shape->word, (size_t)sq->n_externals * sizeof *shape->word))
        return true;
    if (!g->key || count_changes(g, shape) * CHEAP_SHARE > g->n)
        return false;
    if (change(sq, g, shape, false) == MD_OK)
        return true;
    shape->graph = NULL;
    destroy(sq, g);
    return false;
}

void md_sq_graph_after(md_sq *sq, md_sq_shape *shape, md_status (*body)(void *user, md_stream stream), void *user)
{
    if (shape->n_same < RUNS_BEFORE_GRAPH || reuse(sq, shape) || make(sq, shape, body, user) == MD_OK)
        return;
    md_log_at(sq->runtime->log, MD_LOG_WARN, "sequence %s: no graph, launches serve: %s", sq->name, md_last_error());
    shape->has_no_graph = true;
    sq->count.n_failures++;
}
