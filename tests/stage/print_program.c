/* Prints a program, for the golden tests: stages with their reductions, products and stores. */
#include "print_program.h"

#include "base/strbuf.h"
#include "stage/form.h"

static void print_list(md_strbuf *out, const md_st_program *p, const char *title, int32_t n, const int32_t *index)
{
    md_strbuf_printf(out, "%s[", title);
    for (int32_t i = 0; i < n; i++)
        md_strbuf_printf(out, "%s%s", i > 0 ? "," : "", p->index[index[i]].name);
    md_strbuf_add(out, "]");
}

static void print_reduction(md_strbuf *out, const md_st_program *p, const md_st_row *row, int32_t i)
{
    static const char *const merge[] = {"staged", "plain", "rescaled by", "chan with"};
    const md_st_reduction *r = &row->reduction[i];
    md_strbuf_printf(out, "  @%d %s = %s ", i, md_dtype_name(r->type), md_fx_op_text(r->op));
    md_fx_print_node(out, p->formula, r->body);
    md_strbuf_printf(out, "  (level %d, %s", r->level, merge[r->merge]);
    if (r->shift >= 0)
        md_strbuf_printf(out, " @%d", r->shift);
    md_strbuf_add(out, ")\n");
}

static void print_named(md_strbuf *out, const md_st_program *p, const char *title, const md_fx_node *node,
                        const char *end)
{
    md_strbuf_printf(out, "  %s ", title);
    md_fx_print_node(out, p->formula, node);
    md_strbuf_printf(out, "%s\n", end);
}

static void print_product(md_strbuf *out, const md_st_program *p, const md_st_product *product)
{
    for (int32_t i = 0; i < product->n_products; i++) {
        md_strbuf_printf(out, "  @%d %s = ", i, md_dtype_name(product->type));
        md_fx_print_node(out, p->formula, product->a[i]);
        md_strbuf_add(out, " x ");
        md_fx_print_node(out, p->formula, product->b[i]);
        md_strbuf_add(out, "\n");
    }
    if (product->begin != NULL)
        print_named(out, p, "from", product->begin, "");
    if (product->end != NULL)
        print_named(out, p, "to", product->end, "");
}

static void print_bound(md_strbuf *out, const md_st_program *p, const md_st_bound *b)
{
    md_strbuf_add(out, b->is_end ? "  keys <" : "  keys >=");
    for (int32_t i = 0; i < b->n; i++) {
        md_strbuf_printf(out, " %+lld", (long long)b->term[i].coef);
        if (b->term[i].term != NULL) {
            md_strbuf_add(out, "*");
            md_fx_print_node(out, p->formula, b->term[i].term);
        }
    }
    md_strbuf_add(out, "\n");
}

/* $5 and $8 are the products, $7 the sum. */
static void print_pairs(md_strbuf *out, const md_st_program *p, const md_st_chain *c)
{
    static const char *const product[] = {"x", "x2"}, *const side[] = {"of rows", "of keys"},
                             *const sum[] = {"to rows", "to keys"};
    const md_st_pairs *pairs = c->pairs;
    for (int32_t i = 0; i < pairs->n_operands; i++)
        print_named(out, p, side[pairs->operand[i].is_of_keys], pairs->operand[i].value, "");
    for (int32_t i = 0; i < pairs->n_products; i++)
        md_strbuf_printf(out, "  %s operands %d and %d\n", product[i], (int)pairs->product[i].of_rows,
                         (int)pairs->product[i].of_keys);
    for (int32_t i = 0; i < c->n_bounds; i++)
        print_bound(out, p, &c->bound[i]);
    for (int32_t i = 0; i < pairs->n_sums; i++) {
        print_named(out, p, sum[pairs->sum[i].is_towards_keys], pairs->sum[i].weight, "");
        md_strbuf_printf(out, "    with operand %d\n", (int)pairs->sum[i].operand);
    }
}

/* $0.. are sums, $4 the maximum, $5 x, $6 e, $7 the sum of values. */
static void print_chain(md_strbuf *out, const md_st_program *p, const md_st_chain *c)
{
    static const char *const side[] = {"q", "k", "v"};
    for (int32_t i = 0; i < MD_ST_SIDES; i++) {
        const md_st_operand *o = &c->side[i];
        print_named(out, p, side[i], o->value,
                    o->is_plain       ? " (load)"
                    : o->is_linear    ? " (even load)"
                    : o->load != NULL ? " (other load)"
                                      : "");
    }
    print_named(out, p, "score", c->open, "");
    for (int32_t i = 0; i < c->n_guards; i++)
        print_named(out, p, "if", c->guard[i], "");
    for (int32_t i = 0; i < c->n_bounds; i++)
        print_bound(out, p, &c->bound[i]);
    for (int32_t i = 0; i < c->n_terms; i++)
        print_named(out, p, "sum", c->term[i], "");
    print_named(out, p, "weight", c->weight, "");
    if (c->reference != NULL && c->reference->kind != MD_FX_REF)
        print_named(out, p, "reference", c->reference, "");
}

static void print_store(md_strbuf *out, const md_st_program *p, const md_st_store *s)
{
    static const char *const assign[] = {"=", "+=", "*=", "max=", "min="};
    md_strbuf_printf(out, "  %s[", p->formula->tensor[s->tensor].name);
    for (int32_t i = 0; i < s->n_subscripts; i++) {
        md_strbuf_add(out, i > 0 ? "," : "");
        md_fx_print_node(out, p->formula, s->subscript[i]);
    }
    md_strbuf_printf(out, "] %s ", assign[s->assign]);
    md_fx_print_node(out, p->formula, s->value);
    md_strbuf_add(out, s->per_row ? "  (per row)\n" : "\n");
}

void print_program(md_strbuf *out, const md_st_program *program)
{
    for (int32_t i = 0; i < program->n_stages; i++) {
        const md_st_stage *s = &program->stage[i];
        md_strbuf_printf(out, "%d ", i);
        md_st_describe(out, program, i);
        print_list(out, program, "; outer ", s->n_outer, s->outer);
        if (s->axis >= 0)
            md_strbuf_printf(out, " axis %s", program->index[s->axis].name);
        md_strbuf_add(out, "\n");
        for (int32_t k = 0; k < s->row.n_reductions; k++)
            print_reduction(out, program, &s->row, k);
        print_product(out, program, &s->product);
        if (s->kind == MD_ST_SCAN) {
            md_strbuf_printf(out, "  @0 %s = %s ", md_dtype_name(s->scan.type), md_fx_op_text(s->scan.op));
            md_fx_print_node(out, program->formula, s->scan.body);
            md_strbuf_add(out, "\n");
        }
        if (s->kind == MD_ST_CHAIN)
            (s->chain->pairs ? print_pairs : print_chain)(out, program, s->chain);
        for (int32_t k = 0; k < s->n_stores; k++)
            print_store(out, program, &s->store[k]);
    }
}
