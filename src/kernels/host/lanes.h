/* Operations on md_v, MD_VL lanes of the accumulator type, which md_expr.h defines. */
#ifndef MD_HOST_LANES_H
#define MD_HOST_LANES_H

MD_INLINE void md_store_v(md_acc *out, md_v v, int64_t n)
{
#if defined(MD_PAIRED)
    md_put_pairs(out, v, n);
#elif defined(MD_ACC_F32)
    md_store_f32_unit(out, 0, v, n);
#elif defined(MD_ACC_F64)
    md_store_f64_unit(out, 0, v, n);
#else
    md_store_i64_unit(out, 0, v, n);
#endif
}

/* v[i] lane j becomes v[j] lane i. */
MD_INLINE void md_transpose_v(md_v v[MD_VL])
{
#if defined(MD_ACC_F32) && !defined(MD_PAIRED)
    md_transpose(v);
#elif defined(MD_PAIRED)
    md_f t[MD_VL];
    MD_FOR (i, MD_VL)
        t[i] = (md_f)v[i];
    md_transpose(t);
    MD_FOR (i, MD_VL)
        v[i] = (md_v)t[i];
#else
    md_acc t[MD_VL][MD_VL];
    for (int i = 0; i < MD_VL; i++)
        for (int j = 0; j < MD_VL; j++)
            t[j][i] = v[i][j];
    for (int i = 0; i < MD_VL; i++)
        __builtin_memcpy(&v[i], t[i], sizeof v[i]);
#endif
}

#endif
