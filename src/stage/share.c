/* Which rows of a chain share their keys. */
#include "stage/chains.h"

typedef struct sharing {
    int32_t index;
    int64_t share; /* 0: not used; 1: used as it is */
} sharing;

/* A quotient h // 4 is remembered; anything else counts as the index itself. */
static void note_use(sharing *s, const md_fx_node *node)
{
    bool is_quotient = node->kind == MD_FX_OP && node->op == MD_FX_FLOORDIV && md_fx_is_index(node->arg[0], s->index) &&
                       node->arg[1]->kind == MD_FX_CONST && node->arg[1]->type == MD_I64 && node->arg[1]->integer > 1;
    if (is_quotient)
        s->share = s->share == 0 || s->share == node->arg[1]->integer ? node->arg[1]->integer : 1;
    else if (md_fx_is_index(node, s->index))
        s->share = 1;
    for (int32_t i = 0; i < node->n_args && !is_quotient; i++)
        note_use(s, node->arg[i]);
}

int64_t md_st_share_of(const md_st_chain *chain, int32_t index)
{
    sharing s = {.index = index};
    note_use(&s, chain->side[MD_ST_K].value);
    note_use(&s, chain->side[MD_ST_V].value);
    return s.share;
}
