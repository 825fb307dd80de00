/* The text of Hopper's matrix instruction, which depends on the number of columns. */
#include "family/cuda/wgmma.h"

#include "base/strbuf.h"

#include <inttypes.h>

static void print_registers(md_strbuf *out, int32_t from, int32_t n)
{
    for (int32_t i = from; i < from + n; i++)
        md_strbuf_printf(out, "%s%%%" PRId32, i > from ? ", " : "", i);
}

/* Operands: sums, then those of A, the matrix B, and what says whether the sums are kept. */
static void print_instruction(md_strbuf *out, const md_fa_cuda_wgmma *w, int32_t n)
{
    const int32_t n_a = w->is_in_registers ? 4 : 1, b = n + n_a;
    if (w->keeps == MD_FA_WGMMA_ASKED)
        md_strbuf_printf(out, ".reg .pred p;\\nsetp.ne.b32 p, %%%" PRId32 ", 0;\\n", b + 1);
    md_strbuf_printf(out, "wgmma.mma_async.sync.aligned.m64n%" PRId32 "k%" PRId32 ".%s.%s.%s {", w->columns, w->depth,
                     w->is_integer ? "s32" : "f32", w->a, w->b);
    print_registers(out, 0, n);
    md_strbuf_add(out, w->is_in_registers ? "}, {" : "}, ");
    print_registers(out, n, n_a);
    md_strbuf_printf(out, "%s, %%%" PRId32 ", %s%s%s;", w->is_in_registers ? "}" : "", b,
                     w->keeps == MD_FA_WGMMA_ASKED   ? "p"
                     : w->keeps == MD_FA_WGMMA_FIRST ? "0"
                                                     : "1",
                     w->is_integer ? "" : ", 1, 1", w->order ? w->order : "");
}

void md_fa_cuda_wgmma_print(md_strbuf *out, const md_fa_cuda_wgmma *w)
{
    const int32_t n = w->columns / 2;
    const char *sum = w->is_integer ? "int" : "float";
    md_strbuf_printf(out,
                     "static __device__ __forceinline__ void %s(float (&f)[%" PRId32
                     "], %s, unsigned long long b%s)\n{\n    %s (&d)[%" PRId32 "] = *(%s (*)[%" PRId32
                     "])&f;\n    asm volatile(\"{\\n",
                     w->name, n, w->is_in_registers ? "const unsigned *a" : "unsigned long long a",
                     w->keeps == MD_FA_WGMMA_ASKED ? ", int keep" : "", sum, n, sum, n);
    print_instruction(out, w, n);
    md_strbuf_add(out, "\\n}\"\n        : ");
    for (int32_t i = 0; i < n; i++)
        md_strbuf_printf(out, "%s\"%s%s\"(d[%" PRId32 "])", i ? ", " : "", w->keeps == MD_FA_WGMMA_FIRST ? "=" : "+",
                         w->is_integer ? "r" : "f", i);
    md_strbuf_printf(out, "\n        : %s, \"l\"(b)%s);\n}\n",
                     w->is_in_registers ? "\"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3])" : "\"l\"(a)",
                     w->keeps == MD_FA_WGMMA_ASKED ? ", \"r\"(keep)" : "");
}
