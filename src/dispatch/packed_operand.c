/* Packed operands in lists by hash. Readers take no lock: lists only grow, at their heads. */
#include "dispatch/packed_operand.h"

#include "base/hash.h"
#include "base/status.h"
#include "base/task/fork.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LISTS = 64, MOST_TENSORS = 8, MOST_WORDS = MOST_TENSORS * 3 * MD_MAX_RANK, SHARE = 4 };

struct md_ds_packing {
    md_ds_packing *next;
    const md_dev_kernel *kernel; /* that packs */
    int32_t n_tensors, n_words;
    int8_t tensor[MOST_TENSORS], number[MOST_TENSORS]; /* of the formula; among the arguments */
    int64_t word[MOST_WORDS]; /* sizes, extents and strides */
};

typedef struct packed_operand packed_operand;
struct packed_operand {
    packed_operand *next;
    const md_ds_packing *packing;
    void *data[MOST_TENSORS];
    void *memory;
    size_t n_bytes;
    /* changes so far, and one more than those before it was made at last; 0: it never was */
    _Atomic uint32_t changes, made_after;
};

struct md_ds_packed_operands {
    pthread_mutex_t lock; /* held while packings and operands are added and made */
    md_ds_packing *packings;
    _Atomic(packed_operand *) list[LISTS];
};

md_status md_ds_packed_create(struct md_ds_packed_operands **out)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return md_fail_memory();
    md_mutex_init(&(*out)->lock);
    return MD_OK;
}

void md_ds_packed_destroy(struct md_ds_packed_operands **packed, md_ds_runtime *runtime)
{
    struct md_ds_packed_operands *p = *packed;
    if (!p)
        return;
    for (int32_t i = 0; i < LISTS; i++)
        for (packed_operand *o = atomic_load_explicit(&p->list[i], memory_order_relaxed), *next; o; o = next) {
            next = o->next;
            runtime->dev->ops->free(runtime->dev, o->memory);
            atomic_fetch_sub_explicit(&runtime->packed_bytes, (int64_t)o->n_bytes, memory_order_relaxed);
            free(o);
        }
    for (md_ds_packing *g = p->packings, *next; g; g = next) {
        next = g->next;
        free(g);
    }
    md_mutex_finish(&p->lock);
    free(p);
    *packed = NULL;
}

/* ---- Moved axes */

/* True if a stage moves axes of constants. */
static bool moves_constants(const md_ds_op *op, int32_t stage)
{
    const md_st_stage *s = &op->program->stage[stage];
    bool moves = s->kind == MD_ST_POINTWISE && md_st_moves_axes(op->program, stage);
    for (int32_t i = 0; i < s->n_tensors; i++)
        moves = moves && (s->is_stored[i] ? op->formula->tensor[s->tensor[i]].role == MD_FX_TEMP
                                          : op->policy.constants >> s->tensor[i] & 1);
    return moves;
}

void md_ds_find_kept(md_ds_op *op)
{
    for (int32_t s = 0; s < op->program->n_stages; s++)
        if (moves_constants(op, s)) {
            op->kept_stages |= UINT64_C(1) << s;
            op->kept_tensors |= UINT32_C(1) << op->program->stage[s].store[0].tensor;
        }
}

/* ---- Packings */

/* Bits of the tensors that a stage reads. */
static uint32_t inputs_of(const md_ds_op *op, int32_t stage)
{
    const md_st_stage *s = &op->program->stage[stage];
    uint32_t inputs = 0;
    for (int32_t i = 0; i < s->n_tensors; i++)
        inputs |= s->is_stored[i] ? 0 : UINT32_C(1) << s->tensor[i];
    return inputs;
}

/* False: more tensors than a packing has room for. */
static bool describe(md_ds_packing *out, const md_ds_op *op, int32_t stage, const md_bd_variant *variant,
                     const md_kn_shape *shape)
{
    const uint32_t packs = md_ds_is_kept_stage(op, stage) ? inputs_of(op, stage) : variant->packs;
    memset(out, 0, sizeof *out);
    out->kernel = variant->kernel[0];
    for (int32_t t = 0; t < op->formula->n_tensors; t++) {
        const md_fx_tensor *x = &op->formula->tensor[t];
        if (!(packs >> t & 1))
            continue;
        if (out->n_tensors == MOST_TENSORS)
            return false;
        out->number[out->n_tensors] = (int8_t)op->layout.number[t];
        out->tensor[out->n_tensors++] = (int8_t)t;
        for (int32_t a = 0; a < x->rank; a++) {
            out->word[out->n_words++] = shape->size[x->dim[a]];
            out->word[out->n_words++] = shape->extent[t][a];
            out->word[out->n_words++] = shape->stride[t][a];
        }
    }
    return true;
}

static bool are_equal(const md_ds_packing *a, const md_ds_packing *b)
{
    return a->kernel == b->kernel && a->n_words == b->n_words &&
           !memcmp(a->word, b->word, (size_t)a->n_words * sizeof *a->word);
}

const md_ds_packing *md_ds_packing_of(md_ds_op *op, int32_t stage, const md_bd_variant *variant,
                                      const md_kn_shape *shape)
{
    md_ds_packing wanted;
    if (!describe(&wanted, op, stage, variant, shape))
        return NULL;
    pthread_mutex_lock(&op->packed->lock);
    md_ds_packing *found = op->packed->packings;
    while (found && !are_equal(found, &wanted))
        found = found->next;
    if (!found && (found = malloc(sizeof *found)) != NULL) {
        *found = wanted;
        found->next = op->packed->packings;
        op->packed->packings = found;
    }
    pthread_mutex_unlock(&op->packed->lock);
    return found;
}

/* ---- Finding */

static uint32_t list_of(const md_ds_packing *packing, const void *data)
{
    const uint64_t mixed = ((uint64_t)(uintptr_t)packing >> 4 ^ (uint64_t)(uintptr_t)data) * 0x9e3779b97f4a7c15u;
    return (uint32_t)(mixed >> 32) % LISTS;
}

static packed_operand *look(const md_ds_op *op, const md_ds_packing *packing, void *const *own)
{
    packed_operand *o = atomic_load_explicit(&op->packed->list[list_of(packing, own[0])], memory_order_acquire);
    for (; o; o = o->next)
        if (o->packing == packing && !memcmp(o->data, own, (size_t)packing->n_tensors * sizeof *own))
            return o;
    return NULL;
}

static void *current(const packed_operand *o)
{
    return o && atomic_load_explicit(&o->made_after, memory_order_acquire) ==
                       atomic_load_explicit(&o->changes, memory_order_relaxed) + 1
               ? o->memory
               : NULL;
}

/* The addresses of the packing's tensors. */
static void take_data(void *own[MOST_TENSORS], const md_ds_packing *packing, void *const *data)
{
    for (int32_t i = 0; i < packing->n_tensors; i++)
        own[i] = data[packing->tensor[i]];
}

static void *find(const md_ds_op *op, const md_ds_packing *packing, void *const *data)
{
    void *own[MOST_TENSORS];
    take_data(own, packing, data);
    return current(look(op, packing, own));
}

void *md_ds_packed_find(const md_ds_op *op, const md_ds_packing *packing, const uint64_t *data)
{
    void *own[MOST_TENSORS];
    for (int32_t i = 0; i < packing->n_tensors; i++)
        own[i] = (void *)(uintptr_t)data[packing->number[i]];
    return current(look(op, packing, own));
}

/* ---- Making */

static int64_t most_bytes(const md_ds_runtime *runtime)
{
    const int64_t of_device = runtime->dev->facts.global_bytes,
                  all = of_device > 0 ? of_device : (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    return runtime->most_packed_bytes > 0 ? runtime->most_packed_bytes : all / SHARE;
}

/* NULL: memory is short, or the context's bound is reached. */
static packed_operand *add(md_ds_op *op, const md_ds_packing *packing, void *const *own, size_t n_bytes)
{
    md_ds_runtime *r = op->runtime;
    packed_operand *o = calloc(1, sizeof *o);
    const int64_t all = atomic_fetch_add_explicit(&r->packed_bytes, (int64_t)n_bytes, memory_order_relaxed);
    if (!o || all + (int64_t)n_bytes > most_bytes(r) || r->dev->ops->alloc(&o->memory, r->dev, n_bytes) != MD_OK) {
        atomic_fetch_sub_explicit(&r->packed_bytes, (int64_t)n_bytes, memory_order_relaxed);
        md_log_at(r->log, MD_LOG_INFO, "op %s: an operand of %zu bytes is not kept packed: memory is short", op->name,
                  n_bytes);
        free(o);
        return NULL;
    }
    o->packing = packing;
    o->n_bytes = n_bytes;
    memcpy(o->data, own, (size_t)packing->n_tensors * sizeof *own);
    _Atomic(packed_operand *) *list = &op->packed->list[list_of(packing, own[0])];
    o->next = atomic_load_explicit(list, memory_order_relaxed);
    atomic_store_explicit(list, o, memory_order_release);
    atomic_fetch_add_explicit(&op->count.packed, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&op->count.packed_bytes, n_bytes, memory_order_relaxed);
    return o;
}

/* The temporary that a stage writes. */
static int32_t result_of(const md_ds_op *op, int32_t stage)
{
    return op->program->stage[stage].store[0].tensor;
}

/* Waits for the kernel, so that calls on any stream may read what it made. */
static md_status make(packed_operand *o, md_ds_op *op, int32_t stage, const md_ds_stage_choice *choice,
                      md_stream stream, const md_kn_call *call)
{
    const md_bd_variant *variant = op->stage[stage].variant[choice->pick.variant];
    md_dev *dev = op->runtime->dev;
    md_kn_call own = *call;
    const uint32_t changes = atomic_load_explicit(&o->changes, memory_order_acquire);
    if (md_ds_is_kept_stage(op, stage)) {
        own.data[result_of(op, stage)] = o->memory;
        own.stream = stream;
        MD_TRY(md_bd_variant_run(variant, &choice->geometry, stream, &own));
    } else {
        own.packed = o->memory;
        MD_TRY(md_bd_variant_pack(variant, &choice->geometry, stream, &own));
    }
    MD_TRY(dev->ops->sync(dev, stream));
    atomic_store_explicit(&o->made_after, changes + 1, memory_order_release);
    return MD_OK;
}

static size_t bytes_of(const md_ds_op *op, int32_t stage, const md_ds_stage_choice *choice, const md_kn_shape *shape)
{
    size_t n = (size_t)choice->geometry.packed_bytes;
    if (md_ds_is_kept_stage(op, stage)) {
        const md_fx_tensor *x = &op->formula->tensor[result_of(op, stage)];
        n = md_dtype_size(x->dtype);
        for (int32_t a = 0; a < x->rank; a++)
            n *= (size_t)shape->size[x->dim[a]];
    }
    return n;
}

md_status md_ds_packed_get(void **out, md_ds_op *op, int32_t stage, const md_ds_stage_choice *choice, md_stream stream,
                           const md_kn_call *call)
{
    void *own[MOST_TENSORS];
    md_status status = MD_OK;
    const md_bd_variant *variant = op->stage[stage].variant[choice->pick.variant];
    const md_ds_packing *packing = md_ds_packing_of(op, stage, variant, call->shape);
    *out = packing ? find(op, packing, call->data) : NULL;
    if (*out || !packing)
        return MD_OK;
    take_data(own, packing, call->data);
    struct md_ds_packed_operands *p = op->packed;
    if (!md_ds_is_capturing(op->runtime, stream)) {
        pthread_mutex_lock(&p->lock);
        packed_operand *o = look(op, packing, own);
        if (!o)
            o = add(op, packing, own, bytes_of(op, stage, choice, call->shape));
        if (o && !current(o)) {
            status = make(o, op, stage, choice, stream, call);
            atomic_fetch_add_explicit(&op->count.packings, 1, memory_order_relaxed);
        }
        *out = current(o);
        pthread_mutex_unlock(&p->lock);
    }
    if (!*out)
        atomic_fetch_add_explicit(&op->count.unpacked, 1, memory_order_relaxed);
    return status;
}

/* ---- Changes */

static bool is_of(const packed_operand *o, uint32_t tensors, const void *data)
{
    for (int32_t i = 0; i < o->packing->n_tensors; i++)
        if (tensors >> o->packing->tensor[i] & 1 && (!data || o->data[i] == data))
            return true;
    return false;
}

void md_ds_packed_change(md_ds_op *op, uint32_t tensors, const void *data)
{
    for (int32_t i = 0; op->packed && i < LISTS; i++)
        for (packed_operand *o = atomic_load_explicit(&op->packed->list[i], memory_order_acquire); o; o = o->next)
            if (is_of(o, tensors, data))
                atomic_fetch_add_explicit(&o->changes, 1, memory_order_release);
}
