/* The text of a window on a GPU: of one operand, with all indices in its parts. 32 bits are enough where
 * md_window_is_narrow says so. */
#include "codegen/product/window.h"

#include <inttypes.h>

/* Indices as ints, from their number among the points of all of them. */
static void print_narrow_indices(md_strbuf *out, const md_cg_product *p, int32_t n, const int32_t *index,
                                 const char *type, const char *number)
{
    char size[32];
    md_strbuf_printf(out, "%s rest = %s;\n", type, number);
    for (int32_t i = n - 1; i > 0; i--)
        md_strbuf_printf(out,
                         "const %s n%" PRId32 " = (%s)%s;\nconst int x%" PRId32 " = (int)(rest %% n%" PRId32
                         ");\nrest /= n%" PRId32 ";\n",
                         type, index[i], type, md_cg_size(size, p->program, index[i]), index[i], index[i], index[i]);
    md_strbuf_printf(out, "const int x%" PRId32 " = (int)rest;\n", index[0]);
    for (int32_t i = 0; i < n; i++)
        md_strbuf_printf(out, "(void)x%" PRId32 ";\n", index[i]);
}

static void print_limit(md_strbuf *out, const md_cg_product *p, int32_t n, const int32_t *index)
{
    char size[32];
    for (int32_t i = 0; i < n; i++)
        md_strbuf_printf(out, " && %s < 1 << 24", md_cg_size(size, p->program, index[i]));
}

static void print_is_narrow(md_strbuf *out, const md_cg_window *w)
{
    const md_cg_product *p = w->product;
    const md_st_product *s = md_cg_product_stage(p);
    int32_t n, n_batch;
    const int32_t *rows = md_cg_product_group(&n, p, w->operand), *batch = md_cg_product_batch(&n_batch, p, w->operand);
    md_strbuf_add(out, "MD_INLINE bool md_window_is_narrow(const md_params *p)\n{\n    return ");
    md_cg_print_points(out, p->program, s->n_k, s->k);
    md_strbuf_add(out, " < INT64_C(1) << 31");
    print_limit(out, p, n, rows);
    print_limit(out, p, n_batch, batch);
    print_limit(out, p, s->n_k, s->k);
    for (int32_t i = 0; i < w->terms.n; i++) {
        for (int32_t j = 0; j < w->terms.term[i].n_sizes; j++)
            md_strbuf_printf(out, " && p->n%" PRId32 " < 1 << 24", w->terms.term[i].dim[j]);
    }
    md_strbuf_add(out, " && (uint64_t)(");
    md_cg_window_print_elements(out, w);
    md_strbuf_add(out, " - 1) < 1 << 30;\n}\n");
}

/* has_runs: neighbours along the last index of K lie side by side, and are all there or not; has_pieces: eight by eight
 * they are read together. */
static void print_has_pieces(md_strbuf *out, const md_cg_window *w)
{
    const md_cg_product *p = w->product;
    const md_st_product *s = md_cg_product_stage(p);
    char size[32];
    bool is_free = true;
    for (int32_t i = 0; i < w->terms.n; i++)
        is_free &= md_cg_coefficient(&w->terms.term[i], s->k[s->n_k - 1]) == 0;
    md_strbuf_printf(out, "MD_INLINE bool md_window_has_runs(const md_params *p)\n{\n    return %d && (", is_free);
    md_cg_window_print_step(out, w, s->k[s->n_k - 1]);
    md_strbuf_printf(out,
                     ") == 1;\n}\nMD_INLINE bool md_window_has_pieces(const md_params *p)\n{\n    return "
                     "md_window_has_runs(p) && %s %% 8 == 0;\n}\n",
                     md_cg_size(size, p->program, s->k[s->n_k - 1]));
}

int32_t md_cg_product_window_point_words(const md_cg_product *p)
{
    const md_st_product *s = md_cg_product_stage(p);
    int64_t points = 1;
    for (int32_t i = 0; i + 1 < s->n_k; i++) {
        const int64_t size = p->program->formula->dim[p->program->index[s->k[i]].dim].size;
        points = size < 0 || points > 32 ? 64 : points * size;
    }
    return points > 32 ? 2 : 1;
}

/* Points of the filter, of all indices of K but the last, along which the runs lie. */
static void print_points(md_strbuf *defines, md_strbuf *out, const md_cg_product *p)
{
    const md_st_product *s = md_cg_product_stage(p);
    char size[32];
    md_strbuf_add(out, "MD_INLINE int md_window_points(const md_params *p)\n{\n    (void)p;\n    return (int)(");
    md_cg_print_points(out, p->program, s->n_k - 1, s->k);
    md_strbuf_printf(
        out, ");\n}\nMD_INLINE int md_window_run(const md_params *p)\n{\n    (void)p;\n    return (int)%s;\n}\n",
        md_cg_size(size, p->program, s->k[s->n_k - 1]));
    md_strbuf_printf(defines, "#define MD_WINDOW_POINT_WORDS %" PRId32 "\n", md_cg_product_window_point_words(p));
}

void md_cg_product_print_window(md_strbuf *defines, md_strbuf *out, const md_cg_product *p)
{
    md_cg_window w;
    int32_t n, n_batch;
    const int32_t operand = md_cg_product_window(p), *rows = md_cg_product_group(&n, p, operand),
                  *batch = md_cg_product_batch(&n_batch, p, operand);
    md_cg_window_of(&w, p, operand);
    md_strbuf_printf(defines, "#define MD_WINDOW %" PRId32 "\n#define MD_WINDOW_TERMS %" PRId32 "\n", operand,
                     w.terms.n);
    md_strbuf_printf(out,
                     "typedef struct md_window_part {\n    int at, term[%" PRId32 "];\n} md_window_part;\n"
                     "template <class md_row_t> MD_INLINE void md_window_rows(const md_params *p, int64_t batch, "
                     "md_row_t row, md_window_part *part)\n{\n",
                     MD_MAX(w.terms.n, 1));
    md_cg_print_decode(out, p->program, n_batch, batch, "batch");
    print_narrow_indices(out, p, n, rows, "md_row_t", "row");
    md_cg_window_print_sums(out, &w);
    w.is_depth = true;
    md_strbuf_add(out, "}\nMD_INLINE void md_window_depth(const md_params *p, unsigned k, md_window_part *part)\n{\n");
    print_narrow_indices(out, p, md_cg_product_stage(p)->n_k, md_cg_product_stage(p)->k, "unsigned", "k");
    md_cg_window_print_sums(out, &w);
    md_strbuf_add(out, "}\n");
    w.is_depth = false;
    print_points(defines, out, p);
    print_is_narrow(out, &w);
    print_has_pieces(out, &w);
}
