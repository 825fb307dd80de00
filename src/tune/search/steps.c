/* Configs that lie near each other: values of a field have ranks by size, and a step goes from one to the next. */
#include "tune/search/internal.h"

#include <stdlib.h>
#include <string.h>

bool md_tn_same_config(const md_fa_family *f, const md_fa_config *a, const md_fa_config *b)
{
    return !memcmp(a->value, b->value, (size_t)f->n_fields * sizeof a->value[0]);
}

const md_tn_choice *md_tn_find_choice(const md_tn_space *s, const md_fa_family *f, const md_fa_config *config)
{
    for (int32_t i = 0; i < s->n; i++)
        if (md_tn_same_config(f, &s->choice[i].config, config))
            return &s->choice[i];
    return NULL;
}

/* The rank of a value among a field's by size. (The table is in order of search.) */
static int32_t rank_of(const md_fa_field *f, int32_t value)
{
    int32_t rank = 0;
    for (int32_t i = 0; i < f->n + f->more; i++)
        rank += f->value[i] < value;
    return rank;
}

int32_t md_tn_steps(const md_fa_family *f, const md_fa_config *a, const md_fa_config *b)
{
    int32_t d = 0;
    for (int32_t i = 0; i < f->n_fields; i++)
        d += MD_MIN(abs(rank_of(&f->field[i], a->value[i]) - rank_of(&f->field[i], b->value[i])), 3);
    return d;
}

const md_tn_choice *md_tn_neighbour(const md_tn_space *s, const md_fa_family *f, md_fa_config config, int32_t field,
                                    int32_t way)
{
    const md_fa_field *x = &f->field[field];
    const md_tn_choice *c = NULL;
    for (int32_t rank = rank_of(x, config.value[field]) + way; !c && rank >= 0 && rank < x->n + x->more; rank += way)
        for (int32_t i = 0; i < x->n + x->more; i++)
            if (rank_of(x, x->value[i]) == rank) {
                config.value[field] = x->value[i];
                c = md_tn_find_choice(s, f, &config);
            }
    return c;
}
