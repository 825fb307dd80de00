/* The steps of K that a batch sums. With MD_SPANS md_expr.h has md_span_of (src/codegen/product/span.c). */
#ifndef MD_CUDA_DEPTH_SPAN_H
#define MD_CUDA_DEPTH_SPAN_H

/* True if a span may begin between the pieces of a line along K. */
#ifdef MD_SPANS
#define MD_CUTS_PIECES(along) ((along) != 2)
#else
#define MD_CUTS_PIECES(along) false
MD_INLINE void md_span_of(const md_params *p, int64_t, int64_t *from, int64_t *to)
{
    *from = 0;
    *to = md_points_depth(p);
}
#endif

#endif
