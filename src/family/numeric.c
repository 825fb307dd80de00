/* The order of operations of every family, as its kernels have it. What is in no class's name changes neither the
 * elements that meet nor the order. */
#include "family/numeric.h"

#include "codegen/product/product.h"
#include "family/cuda/row/row.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MOST_FIELDS = 4 };

/* A class: its name, and the fields that tell members of one group apart. */
typedef struct kind {
    const char *group; /* NULL: a class of its own */
    const char *field[MOST_FIELDS];
    bool is_repeatable, is_invariant;
} kind;

typedef kind kind_fn(const md_fa_target *target, const md_fa_family *family, const md_fa_config *config);

static const kind own = {0}, repeats = {.is_repeatable = true}; /* `own`: nothing is promised */

static int32_t value_of(const md_fa_family *family, const md_fa_config *config, const char *field)
{
    for (int32_t i = 0; i < family->n_fields; i++)
        if (!strcmp(family->field[i].name, field))
            return config->value[i];
    return 0;
}

static const md_st_stage *stage_of(const md_fa_target *target)
{
    return &target->program->stage[target->stage];
}

static bool is_online(const md_fa_target *target)
{
    return stage_of(target)->row.is_online && stage_of(target)->row.n_levels > 1;
}

/* ---- Everywhere: element by element, by the same functions whatever the vectors; and the plain loops, each sum in
 * one go, which have functions of single values. */

static kind sweep(const md_fa_target *target, const md_fa_family *family, const md_fa_config *config)
{
    (void)target, (void)family, (void)config;
    return (kind){.group = "sweep", .is_repeatable = true, .is_invariant = true};
}

static kind nest(const md_fa_target *target, const md_fa_family *family, const md_fa_config *config)
{
    (void)target, (void)family, (void)config;
    return (kind){.group = "nest", .is_repeatable = true, .is_invariant = true};
}

/* ---- The host */

/* Lane and accumulator of an element follow from its distance from the row's first; chunks are merged one after the
 * other. */
static kind host_row(const md_fa_target *target, const md_fa_family *family, const md_fa_config *config)
{
    (void)config;
    bool is_cut = !family->is_persistent && is_online(target);
    return (kind){.group = is_cut ? "row_chunks" : "row",
                  .field = {is_cut ? "chunk" : NULL},
                  .is_repeatable = true,
                  .is_invariant = true};
}

static kind host_column(const md_fa_target *target, const md_fa_family *family, const md_fa_config *config)
{
    (void)target, (void)family, (void)config;
    return (kind){.group = "column", .is_repeatable = true, .is_invariant = true};
}

/* Streaming begins at a boundary of memory, so vectors of a row begin where the row lies. */
static kind host_scan(const md_fa_target *target, const md_fa_family *family, const md_fa_config *config)
{
    (void)target;
    bool is_down = value_of(family, config, "column") != 0,
         is_placed = !is_down && value_of(family, config, "nontemporal");
    const char *group = is_down ? "scan_down" : is_placed ? "scan_placed" : "scan";
    return (kind){
        .group = group, .field = {is_down ? NULL : "split"}, .is_repeatable = true, .is_invariant = !is_placed};
}

/* What accumulates runs in the order of the formula, in one block or in blocks that each own a part of the target. */
static kind host_scatter(const md_fa_target *target, const md_fa_family *family, const md_fa_config *config)
{
    kind k = sweep(target, family, config);
    k.group = stage_of(target)->has_duplicates ? "scatter" : "sweep";
    return k;
}

/* K in order, an accumulator an element, one rounding a step. */
static kind host_gemm(const md_fa_target *target, const md_fa_family *family, const md_fa_config *config)
{
    (void)target, (void)family, (void)config;
    return (kind){.group = "product", .is_repeatable = true, .is_invariant = true};
}

/* Where B lies along its columns K is in order, too (fma of f32 only); dot products have lanes along K, and only few
 * rows are served. */
static kind host_gemv(const md_fa_target *target, const md_fa_family *family, const md_fa_config *config)
{
    md_cg_product p;
    bool is_few_m = value_of(family, config, "swap_ab") != 0;
    if (!md_cg_product_of(&p, target->program, target->stage, is_few_m ? MD_CG_COLUMNS_M : MD_CG_COLUMNS_N))
        return own;
    if (md_cg_product_along(&p, MD_CG_B) != MD_CG_ALONG_DEPTH && p.type == MD_F32)
        return host_gemm(target, family, config);
    return (kind){.group = "dots", .field = {"swap_ab"}, .is_repeatable = true};
}

/* ---- GPUs */

/* An element's thread and place in it follow from its distance from the first one at a boundary, the row's first
 * where tensors are aligned or where lanes go element by element. Sums go through a thread's vectors in order, then
 * the ends, then threads: not by how many vectors are on their way. */
static kind cuda_row(const md_fa_target *target, const md_fa_family *family, const md_fa_config *config)
{
    bool is_placed = value_of(family, config, "align") == MD_FA_CUDA_ANY;
    bool is_cut = !family->is_persistent && is_online(target);
    return (kind){.group = is_cut      ? (is_placed ? "row_chunks_placed" : "row_chunks")
                           : is_placed ? "row_placed"
                                       : "row",
                  .field = {"lanes", is_cut ? "vecs" : "keep"},
                  .is_repeatable = true,
                  .is_invariant = !is_placed};
}

/* How many blocks a row has follows from the number of rows; their parts are added in the order of blocks. */
static kind cuda_row_split(const md_fa_target *target, const md_fa_family *family, const md_fa_config *config)
{
    (void)target, (void)family, (void)config;
    return repeats;
}

static kind cuda_column(const md_fa_target *target, const md_fa_family *family, const md_fa_config *config)
{
    (void)target;
    if (value_of(family, config, "split"))
        return repeats;
    return (kind){.group = "column",
                  .field = {"threads_x", "threads_y", "items", "keep"},
                  .is_repeatable = true,
                  .is_invariant = true};
}

/* Atomic additions come in any order; of whole numbers that makes no difference. */
static kind cuda_scatter(const md_fa_target *target, const md_fa_family *family, const md_fa_config *config)
{
    const md_st_stage *st = stage_of(target);
    if (!st->has_duplicates)
        return sweep(target, family, config);
    for (int32_t i = 0; i < st->n_stores && !value_of(family, config, "owner"); i++)
        if (md_dtype_is_real(target->program->formula->tensor[st->store[i].tensor].dtype))
            return own;
    return (kind){.group = "scatter", .is_repeatable = true, .is_invariant = true};
}

/* Vectors begin at a store's boundary, which is the row's first element where that is aligned, or where lanes go
 * element by element. */
static bool is_scan_placed(const md_fa_family *family, const md_fa_config *config)
{
    return !value_of(family, config, "aligned") && !value_of(family, config, "strided");
}

static kind cuda_scan_persistent(const md_fa_target *target, const md_fa_family *family, const md_fa_config *config)
{
    (void)target;
    if (value_of(family, config, "column"))
        return (kind){.group = "scan_down", .field = {"items"}, .is_repeatable = true, .is_invariant = true};
    bool is_placed = is_scan_placed(family, config);
    return (kind){.group = is_placed ? "scan_placed" : "scan",
                  .field = {"lanes", "items"},
                  .is_repeatable = true,
                  .is_invariant = !is_placed};
}

/* How far a block looks back depends on timing. */
static kind cuda_scan_split(const md_fa_target *target, const md_fa_family *family, const md_fa_config *config)
{
    (void)target;
    if (value_of(family, config, "lookback"))
        return stage_of(target)->scan.type == MD_I64 ? repeats : own;
    bool is_placed = is_scan_placed(family, config);
    return (kind){.group = is_placed ? "scan_tiles_placed" : "scan_tiles",
                  .field = {"threads", "items"},
                  .is_repeatable = true,
                  .is_invariant = !is_placed};
}

/* An accumulator an element, K in order by steps of one instruction, the same for all tiles; slices are cut from K
 * alone, and added in order. */
static kind cuda_product(const md_fa_target *target, const md_fa_family *family, const md_fa_config *config)
{
    (void)target;
    /* nobody's 0 in front */
    bool is_met = value_of(family, config, "split") > 1 &&
                  value_of(family, config, "split") == value_of(family, config, "cluster");
    return (kind){.group = is_met ? "gemm_wgmma_met" : family->name,
                  .field = {"split"},
                  .is_repeatable = true,
                  .is_invariant = true};
}

/* Slices are of whole steps of K; where all blocks have as much to do, they are cut by the number of tiles. */
static kind cuda_gemm_fma(const md_fa_target *target, const md_fa_family *family, const md_fa_config *config)
{
    (void)target;
    if (value_of(family, config, "split") == 0)
        return repeats;
    return (kind){.group = family->name, .field = {"split", "depth"}, .is_repeatable = true, .is_invariant = true};
}

/* Only few rows are served. */
static kind cuda_gemv(const md_fa_target *target, const md_fa_family *family, const md_fa_config *config)
{
    (void)target, (void)family, (void)config;
    return (kind){.group = "dots", .field = {"slice_k"}, .is_repeatable = true};
}

static const struct {
    md_dev_kind device;
    const char *family;
    kind_fn *kind;
} table[] = {
    {MD_DEV_HOST, "pointwise", sweep},
    {MD_DEV_HOST, "gather", sweep},
    {MD_DEV_HOST, "scatter", host_scatter},
    {MD_DEV_HOST, "row_persistent", host_row},
    {MD_DEV_HOST, "row_looped", host_row},
    {MD_DEV_HOST, "column", host_column},
    {MD_DEV_HOST, "scan", host_scan},
    {MD_DEV_HOST, "gemv", host_gemv},
    {MD_DEV_HOST, "gemm", host_gemm},
    {MD_DEV_HOST, "nest", nest},
    {MD_DEV_CUDA, "pointwise", sweep},
    {MD_DEV_CUDA, "gather", sweep},
    {MD_DEV_CUDA, "scatter", cuda_scatter},
    {MD_DEV_CUDA, "row_persistent", cuda_row},
    {MD_DEV_CUDA, "row_looped", cuda_row},
    {MD_DEV_CUDA, "row_split", cuda_row_split},
    {MD_DEV_CUDA, "column", cuda_column},
    {MD_DEV_CUDA, "scan_persistent", cuda_scan_persistent},
    {MD_DEV_CUDA, "scan_split", cuda_scan_split},
    {MD_DEV_CUDA, "gemm_fma", cuda_gemm_fma},
    {MD_DEV_CUDA, "gemm_simt", cuda_product},
    {MD_DEV_CUDA, "gemm_mma", cuda_product},
    {MD_DEV_CUDA, "gemm_wgmma", cuda_product},
    {MD_DEV_CUDA, "gemv", cuda_gemv},
    {MD_DEV_CUDA, "nest", nest},
    /* gemm_lib of both devices: what a library adds in which order is its own business. */
};

void md_fa_numeric_set(md_fa_numeric *out, const char *name, bool is_repeatable, bool is_invariant)
{
    if (name != out->name)
        snprintf(out->name, sizeof out->name, "%s", name);
    out->is_repeatable = is_repeatable;
    out->is_invariant = is_invariant;
    out->id = md_hash64(out->name, strlen(out->name)) | 1;
}

static void print_name(md_fa_numeric *out, const kind *k, const md_fa_family *family, const md_fa_config *config)
{
    size_t used = (size_t)snprintf(out->name, sizeof out->name, "%s", k->group);
    for (int32_t i = 0; i < MOST_FIELDS && k->field[i] && used < sizeof out->name; i++)
        used += (size_t)snprintf(out->name + used, sizeof out->name - used, "%c%s%" PRId32, i == 0 ? '/' : '_',
                                 k->field[i], value_of(family, config, k->field[i]));
}

void md_fa_numeric_of(md_fa_numeric *out, const md_fa_target *target, const md_fa_family *family,
                      const md_fa_config *config)
{
    kind k = own;
    if (family->numeric) {
        family->numeric(out, target, config);
        return;
    }
    for (int32_t i = 0; i < MD_COUNT(table); i++)
        if (table[i].device == family->device && !strcmp(table[i].family, family->name))
            k = table[i].kind(target, family, config);
    if (k.group)
        print_name(out, &k, family, config);
    else
        md_fa_name(out->name, family, config);
    md_fa_numeric_set(out, out->name, k.is_repeatable, k.is_invariant);
}
