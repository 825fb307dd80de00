/* Trees that correct the form of the cost model: their inputs, and their sum. */
#include "tune/model/trees.h"

#include "family/cost.h"
#include "tune/model/tree_table.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

enum { MOST_FAMILIES = 64, MOST_TWOS = 64, VECTOR_BYTES = 16 };
enum { SINGLE = 2 }; /* values of align from this on: lanes go element by element (md_fa_cuda_align) */

/* Fields that say how a config divides its stage, by name. */
typedef enum role { ROWS, COLUMNS, SPLIT, LANES, VECTORS, THREADS, ALIGN, ROLES } role;
static const char *const role_name[ROLES] = {"rows", "columns", "split", "lanes", "vecs", "threads", "align"};

/* A family of GPUs: its forests, and which of its fields has which role; -1: none. */
enum { MOST_ALIGNS = 6 };
struct md_tn_trees {
    const md_fa_family *family;
    const md_tn_forest *forest[MOST_ALIGNS]; /* by the value of align, or the first; NULL: none */
    bool has_any;
    int8_t field[ROLES];
};

/* By their addresses: the first free or equal place from a hash on. */
enum { PLACES = 256 };
static md_tn_trees families[PLACES];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static md_tn_trees *place_of(const md_fa_family *family)
{
    uint32_t at = (uint32_t)((uintptr_t)family / sizeof(void *) * 2654435761u >> 16) % PLACES;
    while (families[at].family && families[at].family != family)
        at = (at + 1) % PLACES;
    return &families[at];
}

static void take_forests(md_tn_trees *t)
{
    for (int32_t i = 0; i < MD_COUNT(forests); i++) {
        const int32_t align = MD_MAX(forests[i].align, 0);
        if (!strcmp(forests[i].family, t->family->name) && align < MOST_ALIGNS) {
            t->forest[align] = &forests[i];
            t->has_any = true;
        }
    }
}

static int8_t field_of(const md_fa_family *family, role wanted)
{
    for (int32_t i = 0; i < family->n_fields; i++)
        if (!strcmp(family->field[i].name, role_name[wanted]))
            return (int8_t)i;
    return -1;
}

static void fill_roles(md_tn_trees *t, const md_fa_family *family)
{
    *t = (md_tn_trees){.family = family};
    take_forests(t);
    for (role r = 0; r < ROLES; r++)
        t->field[r] = field_of(family, r);
}

static void know_families(void)
{
    const md_fa_family *const *all = md_fa_families(MD_DEV_CUDA);
    for (int32_t i = 0; all[i] && i < PLACES / 2; i++)
        fill_roles(place_of(all[i]), all[i]);
}

const md_tn_trees *md_tn_trees_of(const md_dev_facts *facts, const md_fa_family *family)
{
    enum { HOPPER = 90 }; /* whose times were recorded */
    if (facts->kind != MD_DEV_CUDA || facts->capability != HOPPER)
        return NULL;
    pthread_once(&once, know_families);
    const md_tn_trees *t = place_of(family);
    return t->has_any ? t : NULL;
}

/* ---- Inputs */

/* The value of the field with this role; 1 where there is none. */
static double value_of(const md_tn_trees *t, const md_fa_config *config, role r)
{
    return t->field[r] >= 0 ? MD_MAX(config->value[t->field[r]], 1) : 1;
}

static float twos_of(double size)
{
    const int64_t n = size > 0 && size < 1e15 ? (int64_t)size : 0;
    return n > 0 ? (float)MD_MIN(n & -n, MOST_TWOS) : (float)MOST_TWOS;
}

/* How full the last of so many parts makes them all. */
static double full(double parts)
{
    return parts > 0 ? parts / ceil(parts) : 1;
}

static void put_sizes(float *out, const md_fa_extent *e)
{
    const double results = e->batch * e->rows * e->columns,
                 elements = e->depth > 0 ? e->batch * e->depth * (e->rows + e->columns) + results : results,
                 ops = e->flops / fmax(elements, 1);
    out[MD_TN_TREE_ROWS] = (float)e->rows;
    out[MD_TN_TREE_COLUMNS] = (float)e->columns;
    out[MD_TN_TREE_DEPTH] = (float)e->depth;
    out[MD_TN_TREE_BATCH] = (float)e->batch;
    out[MD_TN_TREE_ROWS_TWOS] = twos_of(e->rows);
    out[MD_TN_TREE_COLUMNS_TWOS] = twos_of(e->columns);
    out[MD_TN_TREE_DEPTH_TWOS] = twos_of(e->depth);
    out[MD_TN_TREE_POINTS] = (float)results;
    out[MD_TN_TREE_BYTES_EACH] = (float)(e->bytes / fmax(elements, 1));
    out[MD_TN_TREE_OPS_EACH] = (float)(e->depth > 0 ? e->flops / fmax(results, 1) - 2 * e->depth : ops);
}

/* How the config divides the stage. */
static void put_division(float *out, const md_tn_trees *t, const md_fa_config *config, const md_fa_extent *e,
                         double sms)
{
    const bool is_product = e->depth > 0, is_single = t->field[ALIGN] >= 0 && config->value[t->field[ALIGN]] >= SINGLE;
    const double down = e->rows / value_of(t, config, ROWS), across = e->columns / value_of(t, config, COLUMNS),
                 split = value_of(t, config, SPLIT), lanes = value_of(t, config, LANES),
                 threads = value_of(t, config, THREADS);
    const double blocks = ceil(down) * e->batch * (t->field[COLUMNS] >= 0 ? ceil(across) : 1) * split / sms;
    const double vectors =
        (is_product ? e->depth : e->columns) / (is_single || e->item <= 0 ? 1 : VECTOR_BYTES / (double)e->item);
    const double turns = vectors / (lanes * value_of(t, config, VECTORS));
    out[MD_TN_TREE_DOWN] = (float)down;
    out[MD_TN_TREE_DOWN_FULL] = (float)full(down);
    out[MD_TN_TREE_ACROSS] = (float)across;
    out[MD_TN_TREE_ACROSS_FULL] = (float)full(across);
    out[MD_TN_TREE_DEEP] = (float)(e->depth / split);
    out[MD_TN_TREE_LOAD] = (float)blocks;
    out[MD_TN_TREE_LOAD_FULL] = (float)full(blocks);
    out[MD_TN_TREE_TURNS] = (float)turns;
    out[MD_TN_TREE_TURNS_FULL] = (float)full(turns);
    out[MD_TN_TREE_LANE_VECTORS] = (float)(vectors / lanes);
    out[MD_TN_TREE_THREAD_ROWS] = (float)(e->rows / threads);
    out[MD_TN_TREE_THREAD_VECTORS] = (float)(vectors / threads);
}

static void put_all(float *out, const md_tn_trees *t, const md_tn_question *q)
{
    md_fa_extent room;
    const md_fa_extent *e = md_fa_extent_of(&room, q->target, q->size);
    const md_fa_features *f = q->features;
    for (int32_t i = 0; i < MD_FA_MAX_FIELDS; i++)
        out[MD_TN_TREE_FIELD + i] = (float)q->config->value[i];
    out[MD_TN_TREE_US] = (float)q->us;
    out[MD_TN_TREE_SERIAL] = (float)f->serial_us;
    out[MD_TN_TREE_MEMORY] = (float)f->memory_bytes;
    out[MD_TN_TREE_CACHE] = (float)f->cache_bytes;
    out[MD_TN_TREE_OPS] = (float)f->ops;
    out[MD_TN_TREE_FUNCTIONS] = (float)f->transcendental;
    out[MD_TN_TREE_RATE] = (float)f->memory_rate;
    out[MD_TN_TREE_PARALLEL] = (float)f->parallel;
    put_sizes(out, e);
    put_division(out, t, q->config, e, MD_MAX(q->target->facts->threads, 1));
}

void md_tn_tree_inputs(float out[MD_TN_TREE_INPUTS], const md_fa_family *family, const md_tn_question *question)
{
    md_tn_trees t;
    fill_roles(&t, family);
    put_all(out, &t, question);
}

/* ---- The sum */

/* 1 within what the trees have seen, 0 two octaves beyond it. */
static double trust(const md_tn_forest *forest, const float *input)
{
    static const uint8_t seen[MD_TN_TREE_SEEN] = {MD_TN_TREE_US,      MD_TN_TREE_ROWS,  MD_TN_TREE_COLUMNS,
                                                  MD_TN_TREE_DEPTH,   MD_TN_TREE_BATCH, MD_TN_TREE_BYTES_EACH,
                                                  MD_TN_TREE_OPS_EACH};
    static const double OCTAVES = 2;
    double left = 1;
    for (int32_t i = 0; i < MD_TN_TREE_SEEN; i++) {
        const double x = input[seen[i]], from = forest->from[i], to = forest->to[i];
        if (x < from || x > to)
            left = fmin(left, 1 - log2(x < from ? from / fmax(x, 1e-9) : x / to) / OCTAVES);
    }
    return fmax(left, 0);
}

double md_tn_forest_factor(const md_tn_forest *forest, const float input[MD_TN_TREE_INPUTS])
{
    int32_t sum = 0;
    for (int32_t i = 0; i < forest->n; i++) {
        const md_tn_tree *t = &forest->tree[i];
        uint32_t leaf = 0;
#pragma GCC unroll 8
        for (int32_t d = 0; d < MD_TN_TREE_DEPTH_OF; d++)
            leaf = leaf << 1 | (input[t->input[d]] > t->above[d]);
        sum += t->leaf[leaf];
    }
    const double factor = exp(trust(forest, input) * sum / MD_TN_TREE_PARTS);
    return fmin(fmax(factor, MD_TN_TREE_LEAST), MD_TN_TREE_MOST);
}

double md_tn_trees_factor(const md_tn_trees *trees, const md_tn_question *question)
{
    const int32_t field = trees->field[ALIGN], align = field < 0 ? 0 : question->config->value[field];
    const md_tn_forest *forest = align >= 0 && align < MOST_ALIGNS ? trees->forest[align] : NULL;
    float input[MD_TN_TREE_INPUTS];
    if (!forest)
        return 1;
    put_all(input, trees, question);
    return md_tn_forest_factor(forest, input);
}
