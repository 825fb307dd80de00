/* Names and texts that need no printer: types, sizes, indices from a linear number. */
#include "codegen/codegen.h"

#include <inttypes.h>
#include <stdio.h>

typedef struct type_text {
    const char *scalar, *lanes, *scalar_suffix, *lane_suffix;
} type_text;

static const type_text *text_of(md_dtype type)
{
    static const type_text table[] = {
        [MD_F32] = {"float", "md_f", "sf", "f"},
        [MD_F64] = {"double", "md_d", "sd", "d"},
        [MD_I64] = {"int64_t", "md_i", "si", "i"},
        [MD_BOOL] = {"int", "md_b", "sb", "b"},
    };
    static const type_text none = {"void", "void", "?", "?"};
    return (unsigned)type < (unsigned)MD_COUNT(table) && table[type].scalar ? &table[type] : &none;
}

const char *md_cg_scalar_type(md_dtype type)
{
    return text_of(type)->scalar;
}

const char *md_cg_lane_type(md_dtype type)
{
    return text_of(type)->lanes;
}

const char *md_cg_suffix(md_dtype type, bool is_uniform)
{
    return is_uniform ? text_of(type)->scalar_suffix : text_of(type)->lane_suffix;
}

const char *md_cg_byte_type(md_dtype type)
{
    return type == MD_BOOL ? "md_z" : "md_y";
}

const char *md_cg_byte_suffix(md_dtype type)
{
    return type == MD_BOOL ? "z" : "y";
}

int32_t md_cg_width(const md_dev_facts *facts)
{
    int32_t lanes = facts->vector_bytes / 4;
    return lanes >= 16 ? 16 : lanes >= 8 ? 8 : 4;
}

const char *md_cg_size(char buf[32], const md_st_program *program, int32_t index)
{
    int32_t dim = program->index[index].dim;
    int64_t size = program->formula->dim[dim].size;
    if (size >= 0)
        snprintf(buf, 32, "INT64_C(%" PRId64 ")", size);
    else
        snprintf(buf, 32, "p->n%" PRId32, dim);
    return buf;
}

void md_cg_print_points(md_strbuf *out, const md_st_program *program, int32_t n, const int32_t *index)
{
    char size[32];
    if (n == 0)
        md_strbuf_add(out, "INT64_C(1)");
    for (int32_t i = 0; i < n; i++)
        md_strbuf_printf(out, "%s%s%s", i == 0 ? "(" : " * ", md_cg_size(size, program, index[i]),
                         i + 1 == n ? ")" : "");
}

void md_cg_print_decode(md_strbuf *out, const md_st_program *program, int32_t n, const int32_t *index,
                        const char *point)
{
    char size[32];
    if (n == 0) {
        md_strbuf_printf(out, "(void)%s;\n", point);
        return;
    }
    md_strbuf_printf(out, "int64_t rest_%s = %s;\n", point, point);
    for (int32_t i = n - 1; i > 0; i--) {
        md_cg_size(size, program, index[i]);
        md_strbuf_printf(out, "int64_t x%" PRId32 " = rest_%s %% %s;\nrest_%s /= %s;\n", index[i], point, size, point,
                         size);
    }
    md_strbuf_printf(out, "int64_t x%" PRId32 " = rest_%s;\n", index[0], point);
    for (int32_t i = 0; i < n; i++)
        md_strbuf_printf(out, "(void)x%" PRId32 ";\n", index[i]);
}

void md_cg_print_advance(md_strbuf *out, const md_st_program *program, int32_t n, const int32_t *index)
{
    char size[32];
    if (n == 0)
        return;
    for (int32_t i = n - 1; i > 0; i--)
        md_strbuf_printf(out, "if (++x%" PRId32 " == %s) { x%" PRId32 " = 0; ", index[i],
                         md_cg_size(size, program, index[i]), index[i]);
    md_strbuf_printf(out, "++x%" PRId32 ";", index[0]);
    for (int32_t i = n - 1; i > 0; i--)
        md_strbuf_add(out, " }");
    md_strbuf_add(out, "\n");
}
