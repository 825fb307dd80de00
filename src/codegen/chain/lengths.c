/* The text that reports lengths above the number of keys, on a GPU: for a row, beside the loops over keys. */
#include "codegen/chain/chain.h"

#include "expr/node.h"

typedef struct lengths {
    const md_cg_chain *chain;
    md_cg *cg;
    bool are_any, differ_by_row;
} lengths;

static bool differs_by_row(const md_st_chain *c, const md_fx_node *length)
{
    return md_fx_uses_any_index(length, c->n_rows, c->rows) ||
           (c->share > 1 && md_fx_uses_index(length, c->share_index));
}

/* Prints the value of each length that is one of rows; the printer adds the report. */
static bool print_length(void *user, const md_fx_node *n)
{
    lengths *l = user;
    if (n->kind != MD_FX_LENGTH || md_fx_uses_index(n, l->chain->axis))
        return true;
    l->are_any = true;
    l->differ_by_row |= differs_by_row(l->chain->c, n);
    return md_cg_value(l->cg, n, NULL) != NULL;
}

md_status md_cg_chain_print_lengths(md_strbuf *defines, md_strbuf *out, const md_cg_chain *chain)
{
    md_cg *cg = md_cg_create(&(md_cg_options){.program = chain->program,
                                              .stage = chain->stage,
                                              .dialect = chain->dialect,
                                              .lane = -1,
                                              .access = MD_CG_STRIDED});
    lengths l = {chain, cg, false, false};
    if (!cg)
        return md_fail_memory();
    md_strbuf_add(out, "MD_INLINE void md_chain_check_lengths(const md_params *p, const md_chain_row *r)\n{\n"
                       "(void)p, (void)r;\n");
    md_cg_chain_print_row(out, chain, "r");
    md_cg_begin(cg, out);
    for (int32_t i = 0; i < chain->c->n_guards; i++)
        (void)md_fx_visit(chain->c->guard[i], print_length, &l);
    for (int32_t i = 0; chain->c->pairs && i < chain->c->pairs->n_sums; i++)
        (void)md_fx_visit(chain->c->pairs->sum[i].weight, print_length, &l);
    md_strbuf_add(out, "}\n");
    md_strbuf_printf(defines, "#define MD_CHAIN_LENGTHS %d\n", l.are_any + l.differ_by_row);
    return md_cg_chain_end(defines, &cg);
}
