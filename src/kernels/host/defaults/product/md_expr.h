/* Y[i,j] = sum[k](A[i,k] * B[k,j]) in f32 with any strides: what src/codegen/product.c generates for it, in short. */
typedef struct md_params {
    void *t0, *t1, *t2, *work0;
    int64_t s0_0, s0_1, s1_0, s1_1, s2_0, s2_1, n0, n1, n2, blocks;
} md_params;
typedef float md_acc;
typedef md_f md_v;
typedef struct md_view {
    int64_t base, row, step;
} md_view;
enum { MD_LANES_NONE, MD_LANES_DEPTH, MD_LANES_ROWS };

MD_INLINE int64_t md_points_batch(const md_params *p)
{
    (void)p;
    return 1;
}
MD_INLINE int64_t md_points_rows(const md_params *p) { return p->n0; }
MD_INLINE int64_t md_points_columns(const md_params *p) { return p->n2; }
MD_INLINE int64_t md_points_depth(const md_params *p) { return p->n1; }
MD_INLINE int md_operand_view(const md_params *p, int which, int64_t batch, md_view *v)
{
    (void)batch;
    *v = which == 0 ? (md_view){0, p->s1_0, p->s1_1} : (md_view){0, p->s2_1, p->s2_0};
    return 1;
}
MD_INLINE md_v md_operand_load(const md_params *p, int which, int64_t offset, int n)
{
    return md_load_f32_unit(which == 0 ? p->t1 : p->t2, offset, n);
}
MD_INLINE md_acc md_operand_get(const md_params *p, int which, int64_t offset)
{
    return md_load_f32_s(which == 0 ? p->t1 : p->t2, offset);
}
MD_INLINE const void *md_operand_address(const md_params *p, int which, int64_t offset)
{
    return (const float *)(which == 0 ? p->t1 : p->t2) + offset;
}
MD_INLINE int md_operand_is_plain(int which)
{
    (void)which;
    return 1;
}
MD_INLINE int md_operand_axis(const md_params *p, int which)
{
    (void)p, (void)which;
    return MD_LANES_NONE;
}
MD_INLINE md_v md_operand_lanes(const md_params *p, int which, int64_t batch, int64_t row, int64_t k, int n)
{
    (void)p, (void)which, (void)batch, (void)row, (void)k, (void)n;
    return (md_v){0};
}
MD_INLINE md_acc md_operand_at(const md_params *p, int which, int64_t batch, int64_t row, int64_t k)
{
    (void)p, (void)which, (void)batch, (void)row, (void)k;
    return 0;
}
MD_INLINE int64_t md_epilogue_room(const md_params *p, int64_t column)
{
    (void)p, (void)column;
    return INT64_MAX;
}
MD_INLINE void md_epilogue(const md_params *p, int64_t batch, int64_t row, int64_t column, const md_acc *c0,
                           const md_acc *c1, int n)
{
    (void)batch, (void)c1;
    int64_t at = row * p->s0_0 + column * p->s0_1;
    if (p->s0_1 == 1)
        md_store_f32_unit(p->t0, at, md_load_f32_unit(c0, 0, MD_VL), n);
    else
        md_store_f32_strided(p->t0, at, p->s0_1, md_load_f32_unit(c0, 0, MD_VL), n);
}
