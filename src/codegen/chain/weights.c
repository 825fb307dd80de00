/* The text of a chain's scores, terms and weights. */
#include "codegen/chain/chain.h"

#include "codegen/product/product.h"
#include "expr/node.h"

typedef struct printed {
    const char *name; /* md_chain_<name> */
    const md_fx_node *node;
    int32_t ref; /* the REF that is the argument */
} printed;

static md_status print_body(md_strbuf *defines, md_strbuf *out, const md_cg_chain *c, const printed *f,
                            md_cg_access access)
{
    const bool is_host = c->dialect == MD_DEV_HOST;
    md_cg *cg = md_cg_chain_printer(c, is_host ? c->axis : -1, access);
    if (!cg)
        return md_fail_memory();
    md_cg_chain_print_row(out, c, "r");
    md_strbuf_printf(out, "const int64_t x%d = key;\n(void)x%d, (void)p, (void)arg;\n", (int)c->axis, (int)c->axis);
    if (is_host)
        md_strbuf_add(out, "(void)md_n;\n");
    md_cg_begin(cg, out);
    md_cg_chain_bind_kept(cg, c);
    md_cg_bind_ref(cg, f->ref, MD_F32, "arg", !is_host);
    const char *value = is_host ? md_cg_lanes(cg, f->node) : md_cg_value(cg, f->node, NULL);
    if (value)
        md_strbuf_printf(out, "return %s;\n}\n", value);
    return md_cg_chain_end(defines, &cg);
}

static void print_head(md_strbuf *out, const md_cg_chain *c, const printed *f, const char *suffix)
{
    if (c->dialect == MD_DEV_HOST)
        md_strbuf_printf(
            out,
            "MD_INLINE md_f md_chain_%s%s(const md_params *p, const md_chain_row *r, int64_t key, md_f arg, "
            "int md_n)\n{\n",
            f->name, suffix);
    else
        md_strbuf_printf(out,
                         "MD_INLINE float md_chain_%s%s(const md_params *p, const md_chain_row *r, int64_t key, float "
                         "arg)\n{\n",
                         f->name, suffix);
}

/* On the host what is read along the keys may have unit stride. */
static md_status print_function(md_strbuf *defines, md_strbuf *out, const md_cg_chain *c, const printed *f)
{
    bool reads = md_fx_has_kind(f->node, MD_FX_LOAD) && md_fx_uses_index(f->node, c->axis);
    if (c->dialect != MD_DEV_HOST || !reads) {
        print_head(out, c, f, "");
        return print_body(defines, out, c, f, MD_CG_STRIDED);
    }
    print_head(out, c, f, "_unit");
    MD_TRY(print_body(defines, out, c, f, MD_CG_UNIT));
    print_head(out, c, f, "_strided");
    MD_TRY(print_body(defines, out, c, f, MD_CG_STRIDED));
    print_head(out, c, f, "");
    md_strbuf_add(out, "if (");
    md_cg_product_print_unit_test(out, f->node, c->axis);
    md_strbuf_printf(out,
                     ")\nreturn md_chain_%s_unit(p, r, key, arg, md_n);\nreturn md_chain_%s_strided(p, r, key, arg, "
                     "md_n);\n}\n",
                     f->name, f->name);
    return MD_OK;
}

static md_status print_scale(md_strbuf *defines, md_strbuf *out, const md_cg_chain *c)
{
    md_cg_scale scale[MD_CG_MAX_SCALES];
    int32_t n = md_cg_chain_scales(scale, c);
    md_cg *cg = md_cg_chain_printer(c, -1, MD_CG_STRIDED);
    if (!cg)
        return md_fail_memory();
    md_strbuf_add(out, "MD_INLINE float md_chain_scale(const md_params *p)\n{\n(void)p;\nfloat scale = 1;\n");
    md_cg_begin(cg, out);
    for (int32_t i = n - 1; i >= 0; i--) {
        const char *value = md_cg_value(cg, scale[i].factor, NULL);
        if (value)
            md_strbuf_printf(out, "scale %s= %s;\n", scale[i].is_divisor ? "/" : "*", value);
    }
    md_strbuf_add(out, "return scale;\n}\n");
    return md_cg_chain_end(defines, &cg);
}

static void print_term_choice(md_strbuf *out, const md_cg_chain *c)
{
    const bool is_host = c->dialect == MD_DEV_HOST;
    const char *type = is_host ? "md_f" : "float", *more = is_host ? ", int md_n" : "", *n = is_host ? ", md_n" : "";
    md_strbuf_printf(out,
                     "MD_INLINE %s md_chain_term(int term, const md_params *p, const md_chain_row *r, int64_t key, %s "
                     "arg%s)\n{\n(void)term, (void)p, (void)r, (void)key;\n%s",
                     type, type, more, is_host ? "(void)md_n;\n" : "");
    for (int32_t i = 0; i < c->c->n_terms; i++)
        md_strbuf_printf(out, "if (term == %d)\nreturn md_chain_term%d(p, r, key, arg%s);\n", (int)i, (int)i, n);
    md_strbuf_add(out, "return arg;\n}\n");
}

md_status md_cg_chain_print_values(md_strbuf *defines, md_strbuf *out, const md_cg_chain *c)
{
    static const char *const term_name[MD_ST_MAX_TERMS] = {"term0", "term1", "term2", "term3"};
    const md_fx_node *weight = c->c->weight;
    bool is_plain;
    if (c->dialect == MD_DEV_CUDA && md_cg_chain_weight(c, &is_plain) != MD_F32)
        weight = weight->arg[0];
    const printed part[] = {
        {"score", c->c->score, MD_ST_REF_X}, {"open", c->c->open, MD_ST_REF_X}, {"weight", weight, MD_ST_REF_E}};
    for (int32_t i = 0; i < MD_COUNT(part); i++)
        MD_TRY(print_function(defines, out, c, &part[i]));
    for (int32_t i = 0; i < c->c->n_terms; i++)
        MD_TRY(print_function(defines, out, c, &(printed){term_name[i], c->c->term[i], MD_ST_REF_E}));
    print_term_choice(out, c);
    return md_cg_chain_is_scaled(c) ? print_scale(defines, out, c) : MD_OK;
}
