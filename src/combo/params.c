/* The parameters of a combo's launches: filled in, moved to other addresses, given new scalars. */
#include "combo/merge.h"
#include "dispatch/bind/bind.h"
#include "kernel/kernel.h"

#include <string.h>

/* ---- All parameters of an item */

/* What parameters are packed from; the shape is that of the binding. */
typedef struct packer {
    md_ds_bound bound;
    md_kn_call call;
    int64_t item; /* of all parts; -1: none yet */
} packer;

static void bind_item(packer *packing, const md_cb *cb, int32_t p, int64_t item)
{
    md_ds_op *op;
    const md_cb_part *part = &cb->part[p];
    (void)md_cb_bind_item(&op, &packing->bound, part, item - part->first); /* cannot fail: it was bound before */
    md_ds_fill_call(&packing->call, op, &packing->bound);
    packing->item = item;
}

static void fill_unit(packer *p, const md_cb *cb, const md_cb_unit *u)
{
    const md_ds_op *op = u->op;
    const md_ds_plan *plan = u->plan;
    char *memory = plan->workspace_bytes > 0 ? cb->plan->base + cb->plan->memory[u->item] : NULL;
    for (int32_t t = 0; t < op->formula->n_tensors; t++)
        if (op->program->is_temp_stored[t])
            p->call.data[t] = memory + plan->temp_offset[t];
    p->call.workspace = plan->workspace_bytes > 0 ? memory + plan->stage[u->stage].workspace_offset : NULL;
    p->call.stage = &op->program->stage[u->stage];
    p->call.launch = u->launch;
    p->call.blocks = u->geometry.blocks;
    md_kn_pack(cb->plan->word + u->params, u->variant->param[u->launch], u->variant->n_params[u->launch], &p->call);
}

static void mark_stale(md_cb *cb, bool has_moved)
{
    for (int64_t i = 0; cb->merged && i < cb->merged->n; i++) {
        cb->merged->group[i].is_stale |= has_moved;
        cb->merged->group[i].has_old_scalars = true;
    }
}

void md_cb_fill(md_cb *cb)
{
    packer p;
    p.item = -1;
    for (int64_t i = 0; i < cb->plan->n_units; i++) {
        const md_cb_unit *u = &cb->plan->unit[i];
        if (p.item != u->item)
            bind_item(&p, cb, u->part, u->item);
        fill_unit(&p, cb, u);
    }
    cb->has_scalars = false;
    mark_stale(cb, true);
}

/* ---- Only what changed */

/* True if an item may run as planned: each address is as much aligned as before, and the same tensors share memory. */
static bool fits(const md_cb_part *p, int64_t item)
{
    void *const *now = p->data + item * p->n_operands, *const *before = p->planned + item * p->n_operands;
    for (int32_t s = 0; s < p->n_operands; s++)
        if (((uintptr_t)now[s] ^ (uintptr_t)before[s]) % 64)
            return false;
    for (int32_t o = 0; o < p->n_operands; o++) {
        for (int32_t s = 0; p->operand[o].is_output && s < p->n_operands; s++) {
            if (s == o || (p->operand[s].is_output && s < o))
                continue;
            if ((now[o] == now[s]) != (before[o] == before[s]))
                return false;
            const md_tensor a = md_cb_tensor(p, &p->operand[o], item), b = md_cb_tensor(p, &p->operand[s], item);
            if (now[o] != now[s] && md_ds_may_overlap(&a, &b))
                return false;
        }
    }
    return true;
}

static bool all_fit(const md_cb *cb)
{
    for (int32_t p = 0; p < cb->n_parts; p++) {
        const md_cb_part *part = &cb->part[p];
        const size_t n_bytes = (size_t)part->n_operands * sizeof(void *);
        for (int64_t i = 0; i < part->n_items; i++)
            if (!part->is_empty[i] &&
                memcmp(part->data + i * part->n_operands, part->planned + i * part->n_operands, n_bytes) &&
                !fits(part, i))
                return false;
    }
    return true;
}

/* By tensor of an op's formula the number of its operand, by scalar its number; -1: none. The op is the part's or its
 * merged one, which has the same arguments. */
static void number_operands(int8_t operand[MD_FX_MAX_TENSORS], int8_t scalar[MD_FX_MAX_SCALARS], const md_cb_part *p,
                            const md_ds_op *op)
{
    memset(operand, -1, MD_FX_MAX_TENSORS);
    memset(scalar, -1, MD_FX_MAX_SCALARS);
    for (int32_t s = 0; s < p->n_operands; s++)
        operand[op->formula->args[p->operand[s].arg].id] = (int8_t)s;
    for (int32_t s = 0; s < p->n_scalars; s++)
        scalar[op->formula->args[p->scalar_arg[s]].id] = (int8_t)s;
}

static void move_unit(const md_cb *cb, const md_cb_unit *u, const int8_t *operand, const int8_t *scalar)
{
    const md_cb_part *p = &cb->part[u->part];
    const int64_t item = u->item - p->first;
    md_kn_word *word = cb->plan->word + u->params;
    const md_kn_param *param = u->variant->param[u->launch];
    for (int32_t i = 0; i < u->variant->n_params[u->launch]; i++)
        if (param[i].kind == MD_KN_POINTER && operand[param[i].a] >= 0)
            word[i].p = p->data[item * p->n_operands + operand[param[i].a]];
        else if (param[i].kind == MD_KN_SCALAR)
            word[i] = p->scalar[item * p->n_scalars + scalar[param[i].a]];
}

bool md_cb_update(md_cb *cb)
{
    int8_t operand[MD_FX_MAX_TENSORS], scalar[MD_FX_MAX_SCALARS];
    int32_t part = -1;
    const md_ds_op *op = NULL;
    if (cb->has_moved && !all_fit(cb))
        return false;
    for (int64_t i = 0; i < cb->plan->n_units; i++) {
        const md_cb_unit *u = &cb->plan->unit[i];
        if (part != u->part || op != u->op)
            number_operands(operand, scalar, &cb->part[u->part], u->op);
        part = u->part;
        op = u->op;
        move_unit(cb, u, operand, scalar);
    }
    for (int32_t p = 0; cb->has_moved && p < cb->n_parts; p++)
        memcpy(cb->part[p].planned, cb->part[p].data,
               (size_t)(cb->part[p].n_items * cb->part[p].n_operands) * sizeof(void *));
    cb->has_scalars = false;
    mark_stale(cb, cb->has_moved);
    return true;
}

void md_cb_rebase(md_cb *cb, char *base)
{
    if (cb->plan->base == base)
        return;
    cb->plan->base = base;
    md_cb_fill(cb);
}
