/* The text of a chain: parameters, definitions, then its parts. */
#include "codegen/chain/chain.h"

#include "base/status.h"
#include "expr/node.h"

static bool is_no_load(void *user, const md_fx_node *n)
{
    (void)user;
    return n->kind != MD_FX_LOAD;
}

static bool is_ragged(const md_st_chain *c)
{
    for (int32_t i = 0; i < c->n_bounds; i++)
        for (int32_t k = 0; k < c->bound[i].n; k++)
            if (c->bound[i].term[k].term && !md_fx_visit(c->bound[i].term[k].term, is_no_load, NULL))
                return true;
    return false;
}

bool md_cg_chain_is_bounded(const md_cg_chain *chain)
{
    const bool is_in_scores =
        chain->dialect == MD_DEV_CUDA && !chain->keeps_bounds && md_cg_chain_looks_up_rows(chain->c);
    return chain->c->is_bounded && !is_in_scores;
}

static void print_head(md_strbuf *defines, md_strbuf *out, const md_cg_chain *chain, const md_kn_param *param,
                       int32_t n)
{
    const md_st_chain *c = chain->c;
    bool is_plain;
    const md_dtype weight = md_cg_chain_weight(chain, &is_plain);
    int term = 0;
    for (int32_t i = 0; i < c->n_terms; i++) {
        const md_fx_node *t = c->term[i];
        bool is_rounded = t->kind == MD_FX_CAST && t->to == weight && t->arg[0]->kind == MD_FX_REF;
        term = t->kind == MD_FX_REF && term == 0 ? 0 : is_rounded && (i == 0 || term == 1) ? 1 : 2;
    }
    md_cg_print_params(out, param, n);
    md_strbuf_add(out, "typedef float md_acc;\ntypedef md_f md_v;\n");
    md_strbuf_printf(defines,
                     "#define MD_CHAIN_BOUNDED %d\n#define MD_CHAIN_RAGGED %d\n"
                     "#define MD_ACC_F32 1\n#define MD_USE_F32 1\n#define MD_CHAIN_MAXIMUM %d\n#define MD_CHAIN_SCALE "
                     "%d\n#define MD_CHAIN_P_T %s\n#define MD_CHAIN_WEIGHT %d\n#define MD_CHAIN_TERMS %d\n#define "
                     "MD_CHAIN_TERM %d\n#define MD_CHAIN_GUARDS %d\n",
                     md_cg_chain_is_bounded(chain), is_ragged(c), c->has_maximum, md_cg_chain_is_scaled(chain),
                     md_dtype_name(weight), !is_plain, (int)c->n_terms, term, c->n_guards > 0);
}

md_status md_cg_chain_print(md_strbuf *defines, md_strbuf *expr, const md_cg_chain *chain, const md_kn_param *param,
                            int32_t n_params)
{
    print_head(defines, expr, chain, param, n_params);
    MD_TRY(md_cg_chain_print_places(defines, expr, chain));
    MD_TRY(md_cg_chain_print_sides(defines, expr, chain));
    MD_TRY(md_cg_chain_print_span(defines, expr, chain));
    if (chain->dialect == MD_DEV_CUDA)
        MD_TRY(md_cg_chain_print_lengths(defines, expr, chain));
    MD_TRY(md_cg_chain_print_values(defines, expr, chain));
    MD_TRY(md_cg_chain_print_results(defines, expr, chain));
    return expr->failed || defines->failed ? md_fail_memory() : MD_OK;
}
