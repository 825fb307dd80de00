/* The text of a chain's operands: where they lie, and their values. */
#include "codegen/chain/chain.h"

#include "base/dtype.h"
#include "expr/node.h"

#include <ctype.h>
#include <stdio.h>

typedef struct side {
    const md_cg_chain *chain;
    md_st_side which;
    char name; /* q, k, v */
    int32_t inner; /* the index of depth, or of columns */
    int32_t n_inner;
    const int32_t *inners;
    const md_st_operand *operand;
    md_dtype dtype;
} side;

static side side_of(const md_cg_chain *c, md_st_side which)
{
    side s = {.chain = c, .which = which, .name = "qkv"[which], .operand = &c->c->side[which]};
    s.inners = which == MD_ST_V ? c->c->columns : c->c->depth;
    s.n_inner = which == MD_ST_V ? c->c->n_columns : c->c->n_depth;
    s.inner = s.inners[0];
    if (s.operand->load)
        s.dtype = c->program->formula->tensor[s.operand->load->id].dtype;
    return s;
}

static const char *place_type(const side *s)
{
    return s->which == MD_ST_Q ? "const md_chain_row *r" : "const md_chain_batch *r, int64_t key";
}

static void print_place(md_strbuf *out, const side *s)
{
    if (s->which == MD_ST_Q)
        md_cg_chain_print_row(out, s->chain, "r");
    else
        md_cg_chain_print_batch(out, s->chain, "r");
    if (s->which != MD_ST_Q)
        md_strbuf_printf(out, "const int64_t x%d = key;\n(void)x%d;\n", (int)s->chain->axis, (int)s->chain->axis);
    md_strbuf_add(out, "(void)r;\n");
}

/* How far an index moves the load. */
static void print_move(md_strbuf *out, const side *s, const char *name, int32_t index)
{
    const md_fx_node *load = s->operand->load;
    int64_t coef[MD_MAX_RANK];
    (void)md_st_step(coef, s->chain->program, load->id, load->arg, index);
    md_strbuf_printf(out, "MD_INLINE int64_t md_chain_%c_%s(const md_params *p)\n{\n(void)p;\nreturn 0", s->name, name);
    for (int32_t a = 0; a < load->n_args; a++)
        if (coef[a] == 1)
            md_strbuf_printf(out, " + p->s%d_%d", (int)load->id, (int)a);
        else if (coef[a] != 0)
            md_strbuf_printf(out, " + INT64_C(%lld) * p->s%d_%d", (long long)coef[a], (int)load->id, (int)a);
    md_strbuf_add(out, ";\n}\n");
}

static md_status print_offset(md_strbuf *defines, md_strbuf *out, const side *s)
{
    md_cg *cg = md_cg_chain_printer(s->chain, -1, MD_CG_STRIDED);
    const md_fx_node *load = s->operand->load;
    const char *condition = NULL;
    if (!cg)
        return md_fail_memory();
    md_strbuf_printf(out, "MD_INLINE int64_t md_chain_%c(const md_params *p, %s)\n{\n(void)p;\n", s->name,
                     place_type(s));
    print_place(out, s);
    md_strbuf_printf(out, "const int64_t x%d = 0;\n(void)x%d;\n", (int)s->inner, (int)s->inner);
    md_cg_begin(cg, out);
    const char *offset = md_cg_offset(cg, load, &condition);
    if (offset && condition)
        md_strbuf_printf(out, "return (%s) ? %s : -1;\n}\n", condition, offset);
    else if (offset)
        md_strbuf_printf(out, "return %s;\n}\n", offset);
    return md_cg_chain_end(defines, &cg);
}

static void print_lanes(md_strbuf *out, const side *s)
{
    const char *dtype = md_dtype_name(s->dtype);
    const md_dtype from = md_dtype_compute(s->dtype);
    const int32_t t = s->operand->load->id;
    static const char *const form[][3] = {{"lanes", "", "unit(p->t%d, offset, n)"},
                                          {"steps", "int64_t step, ", "strided(p->t%d, offset, step, n)"}};
    for (int32_t i = 0; i < 2; i++) {
        md_strbuf_printf(out, "MD_INLINE md_f md_chain_%c_%s(const md_params *p, int64_t offset, %sint n)\n{\nreturn ",
                         s->name, form[i][0], form[i][1]);
        if (from != MD_F32)
            md_strbuf_printf(out, "md_cast_%s_%s(", md_cg_suffix(from, false), md_cg_suffix(MD_F32, false));
        md_strbuf_printf(out, "md_load_%s_", dtype);
        md_strbuf_printf(out, form[i][2], (int)t);
        md_strbuf_add(out, from != MD_F32 ? ");\n}\n" : ";\n}\n");
    }
}

static md_status print_load(md_strbuf *defines, md_strbuf *out, const side *s)
{
    const char upper = (char)toupper(s->name), *type = md_dtype_c_type(s->dtype);
    const bool is_linear = md_cg_chain_is_linear(s->chain, s->which);
    md_strbuf_printf(defines, "#define MD_CHAIN_%c_T %s\n#define MD_CHAIN_%c_LINEAR %d\n", upper,
                     md_dtype_name(s->dtype), upper, is_linear);
    md_strbuf_printf(out,
                     "MD_INLINE const %s *md_chain_%c_data(const md_params *p)\n{\nreturn (const %s *)p->t%d;\n}\n",
                     type, s->name, type, (int)s->operand->load->id);
    print_move(out, s, "step", s->inner);
    if (is_linear && s->which != MD_ST_Q)
        print_move(out, s, "stride", s->chain->axis);
    if (s->chain->dialect == MD_DEV_HOST)
        print_lanes(out, s);
    return print_offset(defines, out, s);
}

static md_status print_at(md_strbuf *defines, md_strbuf *out, const side *s)
{
    md_cg *cg = md_cg_chain_printer(s->chain, -1, MD_CG_STRIDED);
    if (!cg)
        return md_fail_memory();
    md_strbuf_printf(out, "%s float md_chain_%c_at(const md_params *p, %s, int64_t inner)\n{\n(void)p;\n",
                     s->chain->dialect == MD_DEV_HOST ? "MD_OUTLINE" : "MD_INLINE", s->name, place_type(s));
    print_place(out, s);
    md_cg_print_decode(out, s->chain->program, s->n_inner, s->inners, "inner");
    md_cg_begin(cg, out);
    const char *value = md_cg_value(cg, s->operand->value, NULL);
    if (value)
        md_strbuf_printf(out, "return %s;\n}\n", value);
    return md_cg_chain_end(defines, &cg);
}

md_status md_cg_chain_print_sides(md_strbuf *defines, md_strbuf *out, const md_cg_chain *c)
{
    for (int32_t i = 0; i < MD_ST_SIDES; i++) {
        const side s = side_of(c, (md_st_side)i);
        const bool is_load = md_cg_chain_is_load(c, s.which);
        md_strbuf_printf(defines, "#define MD_CHAIN_%c_LOAD %d\n", toupper(s.name), is_load);
        if (is_load)
            MD_TRY(print_load(defines, out, &s));
        MD_TRY(print_at(defines, out, &s));
    }
    return MD_OK;
}
