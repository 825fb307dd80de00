/* The indices of row and scan programs: macros that pass them on, and the loops over rows or tiles of columns. */
#include "codegen/row/row.h"

#include <inttypes.h>

static void print_list(md_strbuf *out, const char *type, int32_t n, const int32_t *index)
{
    for (int32_t i = 0; i < n; i++)
        md_strbuf_printf(out, " %sx%" PRId32 ",", type, index[i]);
}

static void print_indices(md_strbuf *out, const md_st_program *program, int32_t stage, bool is_column, bool is_gpu)
{
    const md_st_stage *st = &program->stage[stage];
    int32_t n = st->n_outer - is_column;
    char size[32];
    md_strbuf_add(out, "#define MD_OUTER_DECL");
    print_list(out, "int64_t ", n, st->outer);
    md_strbuf_add(out, "\n#define MD_OUTER");
    print_list(out, "", n, st->outer);
    if (is_column) {
        int32_t lane = st->outer[n];
        md_strbuf_printf(out,
                         "\n#define MD_X_DECL MD_OUTER_DECL int64_t x%" PRId32
                         ", %s md_n,\n#define MD_X MD_OUTER x%" PRId32 ", md_n,\n",
                         lane, is_gpu ? "md_n_t" : "int", lane);
        md_strbuf_printf(out, "#define MD_X_AT(position, n) MD_OUTER (position), (n),\n");
        md_strbuf_printf(out, "#define %s(p) %s\n", is_gpu ? "MD_COLUMNS" : "MD_LANES",
                         md_cg_size(size, program, lane));
    } else {
        md_strbuf_add(out, "\n#define MD_X_DECL MD_OUTER_DECL\n#define MD_X MD_OUTER\n");
    }
    md_strbuf_printf(out, "#define MD_COUNT(p) %s\n", md_cg_size(size, program, st->axis));
}

void md_cg_print_row_indices(md_strbuf *out, const md_st_program *program, int32_t stage, bool is_column,
                             md_dev_kind dialect)
{
    print_indices(out, program, stage, is_column, dialect == MD_DEV_CUDA);
}

/* MD_ROWS(p), and MD_ROW_AT(p, row) that declares the outer indices, slowest first. */
void md_cg_print_gpu_rows(md_strbuf *out, const md_st_program *program, int32_t stage, bool is_column)
{
    const md_st_stage *st = &program->stage[stage];
    int32_t n = st->n_outer - is_column;
    char size[32];
    md_strbuf_add(out, "#define MD_ROWS(p) ");
    md_cg_print_points(out, program, n, st->outer);
    md_strbuf_add(out, "\n#define MD_ROW_AT(p, row) int64_t md_rest = (row); (void)md_rest;");
    for (int32_t i = n - 1; i > 0; i--)
        md_strbuf_printf(out, " const int64_t x%" PRId32 " = md_split_off(&md_rest, %s);", st->outer[i],
                         md_cg_size(size, program, st->outer[i]));
    if (n > 0)
        md_strbuf_printf(out, " const int64_t x%" PRId32 " = md_rest;", st->outer[0]);
    md_strbuf_add(out, "\n");
}

static void print_rows(md_strbuf *out, const md_st_program *program, int32_t n, const int32_t *outer)
{
    md_strbuf_add(out,
                  "MD_INLINE void md_one_row(MD_X_DECL const md_params *p, int64_t row, char *scratch);\n"
                  "MD_INLINE void md_each_row(const md_params *p, int64_t first, int64_t last, char *scratch)\n{\n");
    md_cg_print_decode(out, program, n, outer, "first");
    md_strbuf_add(out, "for (int64_t row = first; row < last; row++) {\nmd_one_row(MD_X p, row, scratch);\n");
    md_cg_print_advance(out, program, n, outer);
    md_strbuf_add(out, "}\n}\n");
}

static void print_tiles(md_strbuf *out, const md_st_program *program, int32_t n, const int32_t *outer)
{
    md_strbuf_add(out, "MD_INLINE void md_one_tile(MD_OUTER_DECL const md_params *p, int64_t at, char *scratch);\n"
                       "MD_INLINE void md_each_tile(const md_params *p, int64_t first, int64_t last, int64_t width, "
                       "char *scratch)\n{\n"
                       "const int64_t tiles = (MD_LANES(p) + width - 1) / width;\n"
                       "for (int64_t block = first; block < last; block++) {\nconst int64_t point = block / tiles;\n");
    md_cg_print_decode(out, program, n, outer, "point");
    md_strbuf_add(out, "md_one_tile(MD_OUTER p, block % tiles * width, scratch);\n}\n}\n");
}

void md_cg_print_row_loop(md_strbuf *out, const md_st_program *program, int32_t stage, bool is_column)
{
    const md_st_stage *st = &program->stage[stage];
    if (is_column)
        print_tiles(out, program, st->n_outer - 1, st->outer);
    else
        print_rows(out, program, st->n_outer, st->outer);
}
