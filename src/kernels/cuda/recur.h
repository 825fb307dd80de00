/* Recurrences: an element is the step y = a * y + b, and so is a run of elements. MD_RESTARTS: a factor of 0 forgets
 * what was before, whatever it was. MD_RECURRENCE 2 and 3: y = max(a + y, b) and min(a + y, b), where nothing (an
 * infinity) stays nothing, whatever is added. */
#ifndef MD_CUDA_RECUR_H
#define MD_CUDA_RECUR_H

#if MD_RECURRENCE
template <class T> struct md_step {
    T a, b;
    md_step() = default;
    __device__ __forceinline__ md_step(T factor, T term) : a(factor), b(term) {}
    template <class U> __device__ __forceinline__ explicit md_step(const md_step<U> &s) : a((T)s.a), b((T)s.b) {}
};

#if MD_RECURRENCE == 1
MD_INLINE float md_step_term(float a, float y, float b) { return MD_RESTARTS && a == 0 ? b : __fmaf_rn(a, y, b); }
MD_INLINE double md_step_term(double a, double y, double b) { return MD_RESTARTS && a == 0 ? b : __fma_rn(a, y, b); }
MD_INLINE int64_t md_step_term(int64_t a, int64_t y, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)y + (uint64_t)b);
}
MD_INLINE float md_step_factor(float x, float y) { return x * y; }
MD_INLINE double md_step_factor(double x, double y) { return x * y; }
MD_INLINE int64_t md_step_factor(int64_t x, int64_t y) { return (int64_t)((uint64_t)x * (uint64_t)y); }
#else
#define MD_NOTHING (MD_RECURRENCE == 2 ? -MD_INF_F : MD_INF_F)
template <class T> MD_INLINE T md_step_factor(T x, T y)
{
    return x == (T)MD_NOTHING || y == (T)MD_NOTHING ? (T)MD_NOTHING : x + y;
}
MD_INLINE float md_step_term(float a, float y, float b)
{
    const float sum = md_step_factor(a, y);
    return MD_RECURRENCE == 2 ? md_max_sf(sum, b) : md_min_sf(sum, b);
}
MD_INLINE double md_step_term(double a, double y, double b)
{
    const double sum = md_step_factor(a, y);
    return MD_RECURRENCE == 2 ? md_max_sd(sum, b) : md_min_sd(sum, b);
}
#endif

/* The step that does x and then y. */
template <class T> MD_INLINE md_step<T> md_step_then(const md_step<T> &x, const md_step<T> &y)
{
    return md_step<T>(md_step_factor(x.a, y.a), md_step_term(y.a, x.b, y.b));
}

template <class V, class T> MD_INLINE void md_step_set(md_step<V> &v, int k, const md_step<T> &x)
{
    v.a[k] = x.a;
    v.b[k] = x.b;
}
#endif

#endif
