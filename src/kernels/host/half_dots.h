/* Dot products with weights of four bits, of which an operand B is a function that changes with blocks of K only, as
 * scales and zero points of groups do. All values that a weight can have are computed once for a block, as a table of
 * 16 lanes, and weights pick from it. A vector of a block's 64 bytes has eight weights in each lane of 32 bits: weight
 * 8l + j of the block is in lane l, for j = 0 .. 7, and rows of A are laid out alike. A part of few_rows.h.
 * md_expr.h:
 *   md_operand_table(p, which, batch, row, k)    the operand's value for each weight
 *   md_operand_weight(p, which, batch, row, k)   where (row, k) is in md_operand_weights(p, which), in elements */
#ifndef MD_HOST_HALF_DOTS_H
#define MD_HOST_HALF_DOTS_H

enum { MD_HALVES_BLOCK = 8 * MD_VL };

MD_INLINE md_f md_pick(md_f table, md_b at)
{
#ifdef __clang__
    return __builtin_ia32_permvarsf512(table, at);
#else
    return __builtin_ia32_permvarsf512_mask(table, at, (md_f){0}, (unsigned short)-1);
#endif
}

/* How many steps of a chunk of K go through tables: none where a row begins inside a byte, or B lies otherwise. */
static int64_t md_halves_of(const md_params *p, int64_t batch, int64_t k0, int64_t depth)
{
    const md_source b = md_source_make(p, 1, batch, k0, depth);
    int64_t odd = b.lanes != MD_LANES_DEPTH;
    for (int64_t row = 0; row < 2; row++) /* all begin at a multiple of the distance of these two */
        odd |= md_operand_weight(p, 1, batch, row, k0);
#if MD_PRODUCTS == 2
    const md_source b2 = md_source_make(p, 2, batch, k0, depth);
    odd |= b2.lanes != MD_LANES_DEPTH;
    for (int64_t row = 0; row < 2; row++)
        odd |= md_operand_weight(p, 2, batch, row, k0);
#endif
    return odd & 1 ? 0 : depth / MD_HALVES_BLOCK * MD_HALVES_BLOCK;
}

/* Blocks of a row of A as their weights lie. */
static void md_turn_blocks(float *x, int64_t n)
{
    for (; n > 0; n -= MD_HALVES_BLOCK, x += MD_HALVES_BLOCK) {
        float t[MD_HALVES_BLOCK];
        __builtin_memcpy(t, x, sizeof t);
        for (int j = 0; j < 8; j++)
            for (int l = 0; l < MD_VL; l++)
                x[MD_VL * j + l] = t[8 * l + j];
    }
}

#endif
