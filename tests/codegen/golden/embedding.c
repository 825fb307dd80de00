typedef struct md_params {
    void *t2;
    void *t1;
    void *t0;
    int64_t s2_0;
    int64_t s1_0;
    int64_t s1_1;
    int64_t s0_0;
    int64_t s0_1;
    int64_t e1_0;
    int64_t n0;
    int64_t n1;
    void *report;
} md_params;
MD_INLINE int64_t md_points(const md_params *p)
{
    (void)p;
    return (p->n0);
}
MD_INLINE int64_t md_lanes(const md_params *p)
{
    (void)p;
    return (p->n1);
}
/* Outer points [point, end), lanes [lane, lane_end) of each; neither is empty. */
static void md_sweep(const md_params *p, int64_t point, int64_t end, int64_t lane, int64_t lane_end)
{
    (void)lane, (void)lane_end;
    int64_t rest_point = point;
    int64_t x0 = rest_point;
    (void)x0;
    for (;;) {
        void *const t2 = p->t2;
        const int64_t u0 = x0 * p->s2_0;
        const int64_t u1 = md_load_i64_s(t2, u0);
        const int u2 = md_inside_si(u1, p->e1_0);
        if (!u2) md_report(p->report, 1, 0, u1);
        void *const t1 = p->t1;
        const int64_t u3 = u1 * p->s1_0;
        void *const t0 = p->t0;
        const int64_t u6 = x0 * p->s0_0;
        int64_t x1 = lane;
        int64_t part = lane_end - lane < MD_VL ? lane_end - lane : 0;
        for (;;) {
            if (part > 0) {
                const int md_n = (int)part;
                const md_f v4 = md_load_f32_unit(t1, u3 + x1, (u2) ? md_n : 0);
                const md_f v5 = v4 * md_splat_f(2.0f);
                md_store_f32_unit(t0, u6 + x1, v5, md_n);
                x1 += part;
            }
            for (; x1 + MD_VL <= lane_end; x1 += MD_VL) {
                enum { md_n = MD_VL };
                const md_f v4 = md_load_f32_unit(t1, u3 + x1, (u2) ? md_n : 0);
                const md_f v5 = v4 * md_splat_f(2.0f);
                md_store_f32_unit(t0, u6 + x1, v5, md_n);
            }
            if (x1 >= lane_end) break;
            part = lane_end - x1;
        }
        if (++point >= end) break;
        ++x0;
    }
}

MD_EXPORT void md_kernel(const md_params *p, int64_t first, int64_t last, void *scratch)
{
    const int64_t points = md_points(p), lanes = md_lanes(p);
    (void)scratch;
    if (lanes < MD_BLOCK_POINTS) {
        const int64_t rows = MD_BLOCK_POINTS / lanes;
        md_sweep(p, first * rows, md_min_si(last * rows, points), 0, lanes);
    } else {
        const int64_t pieces = (lanes + MD_BLOCK_POINTS - 1) / MD_BLOCK_POINTS;
        for (int64_t b = first; b < last; b++) {
            const int64_t point = b / pieces, lane = b % pieces * MD_BLOCK_POINTS;
            md_sweep(p, point, point + 1, lane, md_min_si(lane + MD_BLOCK_POINTS, lanes));
        }
    }
#ifdef MD_STREAMING
    md_stream_end();
#endif
}
