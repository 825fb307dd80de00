/* Programs: making and freeing them, and small questions about their indices. */
#include "stage/form.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static md_status fill(md_st_program *p)
{
    md_st_maker m = {.program = p, .formula = p->formula, .arena = p->arena};
    p->n_indices = p->formula->n_indices;
    memcpy(p->index, p->formula->index, (size_t)p->n_indices * sizeof *p->index);
    return md_st_plan(&m);
}

md_status md_st_program_create(md_st_program **out, const md_fx_formula *formula)
{
    md_st_program *p = calloc(1, sizeof *p);
    if (!p)
        return md_fail_memory();
    p->formula = formula;
    p->arena = md_arena_create();
    md_status status = p->arena != NULL ? fill(p) : md_fail_memory();
    if (status != MD_OK) {
        md_st_program_destroy(&p);
        return status;
    }
    *out = p;
    return MD_OK;
}

void md_st_program_destroy(md_st_program **program)
{
    if (!program || !*program)
        return;
    for (int32_t s = 0; s < (*program)->n_stages; s++)
        for (int32_t k = 0; k < MD_ST_KNOWN; k++)
            free(atomic_load_explicit(&(*program)->known[s][k], memory_order_relaxed));
    md_arena_destroy(&(*program)->arena);
    free(*program);
    *program = NULL;
}

void md_st_program_drop(md_st_program *p, int32_t chain)
{
    for (int32_t k = 0; k < MD_ST_KNOWN; k++)
        free(atomic_load_explicit(&p->known[chain][k], memory_order_relaxed));
    for (int32_t s = chain + 1; s < p->n_stages; s++) {
        p->stage[s - 1] = p->stage[s];
        memcpy(&p->known[s - 1], &p->known[s], sizeof p->known[s]);
    }
    p->n_stages--;
    memset(&p->known[p->n_stages], 0, sizeof p->known[p->n_stages]);
    for (int32_t s = 0; s < p->n_stages; s++)
        for (int32_t i = 0; i < p->stage[s].n_parts; i++)
            p->stage[s].part[i] -= p->stage[s].part[i] > chain;
}

bool md_st_moves_axes(const md_st_program *program, int32_t stage)
{
    for (int32_t s = 0; s < program->n_stages; s++)
        for (int32_t i = 0; program->stage[s].kind == MD_ST_PRODUCT && i < program->stage[s].n_parts; i++)
            if (program->stage[s].part[i] == stage)
                return true;
    return false;
}

const void *md_st_look(void *room, const md_st_program *program, int32_t stage, const md_st_fact *fact)
{
    /* Readers see a const program; the op that owns it does not have it in read-only memory. */
    _Atomic(void *) *place = &((md_st_program *)(uintptr_t)program)->known[stage][fact->which];
    void *known = atomic_load_explicit(place, memory_order_acquire);
    if (known)
        return known;
    fact->make(room, program, stage, fact->user);
    void *made = malloc(fact->n_bytes);
    if (!made)
        return room;
    memcpy(made, room, fact->n_bytes);
    if (atomic_compare_exchange_strong_explicit(place, &known, made, memory_order_acq_rel, memory_order_acquire))
        return made;
    free(made);
    return known;
}

void md_st_know(void *out, const md_st_program *program, int32_t stage, const md_st_fact *fact)
{
    const void *known = md_st_look(out, program, stage, fact);
    if (known != out)
        memcpy(out, known, fact->n_bytes);
}

int64_t md_st_size(const md_st_program *program, int32_t index, const int64_t *size)
{
    return size[program->index[index].dim];
}

int64_t md_st_points(const md_st_program *program, int32_t n, const int32_t *index, const int64_t *size)
{
    int64_t points = 1;
    bool is_empty = false, overflows = false;
    for (int32_t i = 0; i < n; i++) {
        is_empty |= md_st_size(program, index[i], size) == 0;
        overflows |= __builtin_mul_overflow(points, md_st_size(program, index[i], size), &points);
    }
    return is_empty ? 0 : overflows ? INT64_MAX : points;
}
