/* The text of windows on the host (kernels/host/window.h says which functions), of all operands that are windows. */
#include "codegen/product/window.h"

#include <inttypes.h>

/* Where the run's index lies for each term to be at least 0. */
static void print_range(md_strbuf *out, const md_cg_window *w)
{
    for (int32_t i = 0; i < w->terms.n; i++) {
        const int64_t by = md_cg_coefficient(&w->terms.term[i], w->along);
        md_strbuf_printf(out, "{ const int64_t e = row->term[%" PRId32 "] + depth->term[%" PRId32 "];\n", i, i);
        if (by == 0)
            md_strbuf_add(out, "if (e < 0) *end = 0;\n");
        else if (by > 0)
            md_strbuf_printf(out,
                             "const int64_t least = e >= 0 ? 0 : (%" PRId64 " - e) / %" PRId64
                             ";\nif (*begin < least) *begin = least;\n",
                             by - 1, by);
        else
            md_strbuf_printf(
                out, "const int64_t most = e < 0 ? 0 : e / %" PRId64 " + 1;\nif (*end > most) *end = most;\n", -by);
        md_strbuf_add(out, "}\n");
    }
}

/* From a step of K to the next indices are counted, not divided. */
static void print_depth(md_strbuf *out, const md_cg_window *w)
{
    const md_st_program *program = w->product->program;
    const md_st_product *s = md_cg_product_stage(w->product);
    const int32_t last = s->k[s->n_k - 1];
    for (int32_t is_next = 0; is_next < 2; is_next++) {
        md_strbuf_printf(out,
                         "MD_INLINE void md_window_%s_%" PRId32
                         "(const md_params *p, int64_t k, md_window_steps *steps)\n{\n(void)p, (void)k;\n"
                         "md_window_part *part = &steps->part;\n",
                         is_next ? "next" : "depth", w->operand);
        for (int32_t i = 0; i < s->n_k && is_next; i++)
            md_strbuf_printf(out, "int64_t x%" PRId32 " = steps->x[%" PRId32 "];\n", s->k[i], i);
        if (is_next)
            md_cg_print_advance(out, program, s->n_k, s->k);
        else
            md_cg_print_decode(out, program, s->n_k, s->k, "k");
        for (int32_t i = 0; i < s->n_k; i++)
            md_strbuf_printf(out, "steps->x[%" PRId32 "] = x%" PRId32 ";\n", i, s->k[i]);
        md_cg_window_print_sums(out, w);
        md_strbuf_printf(out, "part->along = %s%" PRId32 ";\n}\n", w->along == last ? "x" : "",
                         w->along == last ? last : 0);
    }
}

/* Steps of K until its first index moves on, and how far that moves the load, if it moves no term of the guard. */
static void print_period(md_strbuf *out, const md_cg_window *w)
{
    const md_st_product *s = md_cg_product_stage(w->product);
    bool is_free = s->k[0] != w->along;
    for (int32_t i = 0; i < w->terms.n; i++)
        is_free &= md_cg_coefficient(&w->terms.term[i], s->k[0]) == 0;
    if (!is_free) {
        md_strbuf_add(out, ", INT64_MAX, 0");
        return;
    }
    md_strbuf_add(out, ", ");
    md_cg_print_points(out, w->product->program, s->n_k - 1, s->k + 1);
    md_strbuf_add(out, ", ");
    md_cg_window_print_step(out, w, s->k[0]);
}

/* All functions of one operand. */
static void print_operand(md_strbuf *out, const md_cg_product *p, int32_t operand)
{
    md_cg_window w;
    char length[32];
    const md_st_product *s = md_cg_product_stage(p);
    int32_t n, n_batch;
    const int32_t *rows = md_cg_product_group(&n, p, operand), *batch = md_cg_product_batch(&n_batch, p, operand);
    const bool is_rows = md_cg_product_window_along(p, operand) == MD_CG_ALONG_ROWS;
    md_cg_window_of(&w, p, operand);
    w.along = is_rows ? rows[n - 1] : s->k[s->n_k - 1];
    md_cg_size(length, p->program, w.along);
    md_strbuf_printf(out,
                     "MD_INLINE void md_window_rows_%" PRId32
                     "(const md_params *p, int64_t batch, int64_t row, md_window_part *part)\n{\n(void)p;\n",
                     operand);
    md_cg_print_decode(out, p->program, n_batch, batch, "batch");
    md_cg_print_decode(out, p->program, n, rows, "row");
    md_cg_window_print_sums(out, &w);
    md_strbuf_printf(out, "part->along = %s%" PRId32 ";\n}\n", is_rows ? "x" : "", is_rows ? w.along : 0);
    w.is_depth = true;
    print_depth(out, &w);
    md_strbuf_printf(out,
                     "MD_INLINE void md_window_range_%" PRId32
                     "(const md_window_part *row, const md_window_part *depth, int64_t *begin, int64_t *end)\n{\n"
                     "(void)row, (void)depth, (void)begin, (void)end;\n",
                     operand);
    print_range(out, &w);
    md_strbuf_printf(out,
                     "}\nMD_INLINE md_window md_window_make_%" PRId32
                     "(const md_params *p)\n{\n    return (md_window){%s, %s, ",
                     operand, is_rows ? "MD_LANES_ROWS" : "MD_LANES_DEPTH", length);
    md_cg_window_print_step(out, &w, w.along);
    md_strbuf_add(out, ", ");
    md_cg_window_print_elements(out, &w);
    print_period(out, &w);
    md_strbuf_add(out, "};\n}\n");
}

/* `which` is a constant where they are called. */
static void print_choice(md_strbuf *out, const md_cg_product *p, const char *name, const char *arguments)
{
    md_strbuf_printf(out, "#define md_window_%s(which%s) (", name, arguments);
    int32_t last = 0;
    for (int32_t o = 0; o <= p->n_products; o++)
        last = p->window[o] ? o : last;
    for (int32_t o = 0; o < last; o++)
        if (p->window[o])
            md_strbuf_printf(out, "which == %" PRId32 " ? md_window_%s_%" PRId32 "(%s) : ", o, name, o, arguments + 2);
    md_strbuf_printf(out, "md_window_%s_%" PRId32 "(%s))\n", name, last, arguments + 2);
}

void md_cg_product_print_windows(md_strbuf *defines, md_strbuf *out, const md_cg_product *p)
{
    uint32_t mask = 0;
    for (int32_t o = 0; o <= p->n_products; o++)
        mask |= p->window[o] ? UINT32_C(1) << o : 0;
    if (mask == 0 || p->is_paired)
        return;
    md_strbuf_printf(defines, "#define MD_WINDOWS %" PRIu32 "\n", mask);
    md_strbuf_printf(
        out,
        "typedef struct md_window {\n    int lanes;\n    int64_t length, step, elements, period, far;\n} md_window;\n"
        "typedef struct md_window_part {\n    int64_t at, along, term[%d];\n} md_window_part;\n"
        "typedef struct md_window_steps {\n    md_window_part part;\n    int64_t x[%d];\n} "
        "md_window_steps;\n",
        MD_CG_MAX_TERMS, MD_MAX_RANK);
    for (int32_t o = 0; o <= p->n_products; o++)
        if (p->window[o])
            print_operand(out, p, o);
    print_choice(out, p, "rows", ", p, batch, row, part");
    print_choice(out, p, "depth", ", p, k, steps");
    print_choice(out, p, "next", ", p, k, steps");
    print_choice(out, p, "range", ", row, depth, begin, end");
    print_choice(out, p, "make", ", p");
}
