/* The text of a chain's batches and rows: numbers to indices, and what is kept a row. */
#include "codegen/chain/chain.h"

static void print_points(md_strbuf *out, const md_cg_chain *c, const char *name, int32_t n, const int32_t *index)
{
    md_strbuf_printf(out, "MD_INLINE int64_t md_chain_%s(const md_params *p)\n{\n(void)p;\nreturn ", name);
    md_cg_print_points(out, c->program, n, index);
    if (c->c->share > 1 && index == c->c->batch)
        md_strbuf_add(out, " / md_chain_share(p)");
    if (c->c->share > 1 && index == c->c->rows)
        md_strbuf_add(out, " * md_chain_share(p)");
    md_strbuf_add(out, ";\n}\n");
}

/* The type that numbers of batches and rows are divided in: on a GPU 64 bits take five times as long, and registers
 * that copying threads do not have; its families take no more than 2^31 of either. */
static void print_type(md_strbuf *out, const md_cg_chain *c)
{
    md_strbuf_printf(out, "typedef %s md_chain_int;\n", c->dialect == MD_DEV_CUDA ? "uint32_t" : "int64_t");
}

/* How many rows share keys: where the size is no multiple, none do. */
static void print_sizes(md_strbuf *out, const md_cg_chain *c)
{
    const md_st_chain *s = c->c;
    char size[32];
    if (s->share > 1) {
        md_cg_size(size, c->program, s->share_index);
        md_strbuf_printf(out,
                         "MD_INLINE md_chain_int md_chain_share(const md_params *p)\n{\n(void)p;\nreturn "
                         "(md_chain_int)%s %% %d == 0 ? "
                         "%d : 1;\n}\n",
                         size, (int)s->share, (int)s->share);
    }
    print_points(out, c, "batches", s->n_batch, s->batch);
    print_points(out, c, "rows", s->n_rows, s->rows);
    md_strbuf_printf(out, "MD_INLINE int64_t md_chain_run(const md_params *p)\n{\n(void)p;\nreturn %s;\n}\n",
                     s->n_rows > 0 ? md_cg_size(size, c->program, s->rows[s->n_rows - 1]) : "1");
    print_points(out, c, "keys", 1, &c->axis);
    print_points(out, c, "depth", s->n_depth, s->depth);
    print_points(out, c, "columns", s->n_columns, s->columns);
}

static void print_structs(md_strbuf *out, const md_cg_chain *c)
{
    const md_st_chain *s = c->c;
    md_strbuf_add(out, "typedef struct md_chain_batch {\nint64_t none;\n");
    for (int32_t i = 0; i < s->n_batch; i++)
        md_strbuf_printf(out, "int64_t x%d;\n", (int)s->batch[i]);
    md_strbuf_add(out, "} md_chain_batch;\ntypedef struct md_chain_row {\nint64_t none;\n");
    for (int32_t i = 0; i < s->n_batch; i++)
        md_strbuf_printf(out, "int64_t x%d;\n", (int)s->batch[i]);
    for (int32_t i = 0; i < s->n_rows; i++)
        md_strbuf_printf(out, "int64_t x%d;\n", (int)s->rows[i]);
    for (int32_t i = 0; i < c->n_kept; i++)
        md_strbuf_printf(out, "%s kept%d;\n", md_cg_scalar_type(c->kept[i]->type), (int)i);
    md_strbuf_add(out, "} md_chain_row;\n");
}

static void print_batch(md_strbuf *out, const md_cg_chain *c)
{
    const md_st_chain *s = c->c;
    char size[32];
    md_strbuf_add(out, "MD_INLINE md_chain_batch md_chain_batch_of(const md_params *p, int64_t batch)\n{\n"
                       "md_chain_batch b = {0};\nmd_chain_int n = (md_chain_int)batch;\n(void)p, (void)n;\n");
    for (int32_t i = s->n_batch - 1; i >= 0; i--) {
        const char *share = s->share > 1 && s->batch[i] == s->share_index ? "md_chain_share(p)" : "1";
        md_cg_size(size, c->program, s->batch[i]);
        if (i > 0)
            md_strbuf_printf(out, "b.x%d = n %% ((md_chain_int)%s / %s) * %s;\nn /= (md_chain_int)%s / %s;\n",
                             (int)s->batch[i], size, share, share, size, share);
        else
            md_strbuf_printf(out, "b.x%d = n * %s;\n", (int)s->batch[i], share);
    }
    md_strbuf_add(out, "return b;\n}\n");
}

static void print_row_indices(md_strbuf *out, const md_cg_chain *c)
{
    const md_st_chain *s = c->c;
    char size[32];
    for (int32_t i = 0; i < s->n_batch; i++)
        md_strbuf_printf(out, "r.x%d = b->x%d;\n", (int)s->batch[i], (int)s->batch[i]);
    for (int32_t i = s->n_rows - 1; i >= 0; i--) {
        md_cg_size(size, c->program, s->rows[i]);
        if (i > 0 || s->share > 1)
            md_strbuf_printf(out, "r.x%d = n %% (md_chain_int)%s;\nn /= (md_chain_int)%s;\n", (int)s->rows[i], size,
                             size);
        else
            md_strbuf_printf(out, "r.x%d = n;\n", (int)s->rows[i]);
    }
    if (s->share > 1)
        md_strbuf_printf(out, "r.x%d += n;\n", (int)s->share_index);
}

static md_status print_kept(md_strbuf *defines, md_strbuf *out, const md_cg_chain *c)
{
    md_cg *cg = md_cg_chain_printer(c, -1, MD_CG_STRIDED);
    if (!cg)
        return md_fail_memory();
    md_cg_begin(cg, out);
    for (int32_t i = 0; i < c->n_kept; i++) {
        const char *value = md_cg_value(cg, c->kept[i], NULL);
        if (value)
            md_strbuf_printf(out, "r.kept%d = %s;\n", (int)i, value);
    }
    return md_cg_chain_end(defines, &cg);
}

md_status md_cg_chain_print_places(md_strbuf *defines, md_strbuf *out, const md_cg_chain *c)
{
    print_type(out, c);
    print_sizes(out, c);
    print_structs(out, c);
    print_batch(out, c);
    md_strbuf_add(out,
                  "MD_INLINE md_chain_row md_chain_row_of(const md_params *p, const md_chain_batch *b, int64_t "
                  "row)\n{\nmd_chain_row r = {0};\nmd_chain_int n = (md_chain_int)row;\n(void)p, (void)b, (void)n;\n");
    print_row_indices(out, c);
    md_strbuf_add(out, "const md_chain_row *from = &r;\n(void)from;\n");
    md_cg_chain_print_row(out, c, "from");
    md_status status = print_kept(defines, out, c);
    md_strbuf_add(out, "return r;\n}\n");
    return status;
}
