/* The micro-kernel of packed products: a tile of rows x (MD_VECS registers) of C kept in registers over a block of K,
 * as in GotoBLAS (Goto and van de Geijn, 2008) and BLIS (Van Zee and van de Geijn, 2015). One accumulator an element, K
 * in order, cut as split.h says: the bits of an element depend neither on the tile, nor on the block of K, nor on how
 * the work is divided. */
#ifndef MD_HOST_TILE_H
#define MD_HOST_TILE_H

/* Panels of A have one of three heights, so that few rows need not be padded to a full tile. */
#define MD_HEIGHT0 MD_ROWS
#define MD_HEIGHT1 ((2 * MD_ROWS + 2) / 3)
#define MD_HEIGHT2 ((MD_ROWS + 2) / 3)
#define MD_PITCH (MD_VECS * MD_TL) /* of a packed strip of B, and of a tile of C */

MD_INLINE int md_height(int64_t rows)
{
    return rows > MD_HEIGHT1 ? MD_HEIGHT0 : rows > MD_HEIGHT2 ? MD_HEIGHT1 : MD_HEIGHT2;
}

/* c = (is_first ? 0 : c) + (a * b), with a[k][rows], b[k][MD_PITCH], c[rows][MD_PITCH]. */
MD_INLINE void md_tile(int rows, int64_t depth, const md_acc *a, const md_acc *b, md_acc *c, int is_first)
{
    md_t acc[MD_ROWS][MD_VECS];
    MD_FOR (i, rows)
        MD_FOR (j, MD_VECS)
            acc[i][j] = (md_t){0};
    MD_ROLLED for (int64_t k = 0; k < depth; k++, a += rows, b += MD_PITCH)
    {
        md_t w[MD_VECS];
        MD_FOR (j, MD_VECS)
            w[j] = *(const md_t *)(b + j * MD_TL);
        MD_FOR (i, rows)
            MD_FOR (j, MD_VECS)
                acc[i][j] = md_mac_t(md_splat_t(a[i]), w[j], acc[i][j]);
    }
    MD_FOR (i, rows)
        MD_FOR (j, MD_VECS) {
            md_t *at = (md_t *)(c + i * MD_PITCH + j * MD_TL);
            *at = is_first ? acc[i][j] : *at + acc[i][j];
        }
}

MD_OUTLINE void md_tile_height0(int64_t depth, const md_acc *a, const md_acc *b, md_acc *c, int is_first)
{
    md_tile(MD_HEIGHT0, depth, a, b, c, is_first);
}
MD_OUTLINE void md_tile_height1(int64_t depth, const md_acc *a, const md_acc *b, md_acc *c, int is_first)
{
    md_tile(MD_HEIGHT1, depth, a, b, c, is_first);
}
MD_OUTLINE void md_tile_height2(int64_t depth, const md_acc *a, const md_acc *b, md_acc *c, int is_first)
{
    md_tile(MD_HEIGHT2, depth, a, b, c, is_first);
}

MD_INLINE void md_tile_run(int height, int64_t depth, const md_acc *a, const md_acc *b, md_acc *c, int is_first)
{
    if (height == MD_HEIGHT0)
        md_tile_height0(depth, a, b, c, is_first);
    else if (height == MD_HEIGHT1)
        md_tile_height1(depth, a, b, c, is_first);
    else
        md_tile_height2(depth, a, b, c, is_first);
}

#endif
