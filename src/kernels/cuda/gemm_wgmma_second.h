/* Between the parts of gemm_wgmma_rows.cu for a first tile and for a second one (MD_PICKS): from here on the values of
 * a tile are the second one's, which has one warpgroup that computes, in blocks of the first one's threads. */
#undef MD_CUDA_GEMM_WGMMA_TILES_H
#undef MD_CUDA_GEMM_WGMMA_EPILOGUE_H
#undef MD_BM
#define MD_BM MD_SECOND_BM
#undef MD_BN
#define MD_BN MD_SECOND_BN
#undef MD_STAGES
#define MD_STAGES MD_SECOND_STAGES
#undef MD_DEEP
#define MD_DEEP MD_SECOND_DEEP
#undef MD_PANEL
#define MD_PANEL MD_SECOND_PANEL
#undef MD_PANELS
#define MD_PANELS MD_SECOND_PANELS
#undef MD_MOVES_REGISTERS
#define MD_MOVES_REGISTERS (MD_FIRST_CONSUMERS == 2)
#undef MD_CONSUMERS
#define MD_CONSUMERS 1
#undef MD_PINGPONG
#define MD_PINGPONG 0
#undef MD_IS_SECOND
#define MD_IS_SECOND 1
#undef MD_MAP_1
#undef MD_MAP_2
#if MD_PRODUCTS == 2
#define MD_MAP_1 &p.map2
#define MD_MAP_2 &p.map3
#else
#define MD_MAP_1 &p.map1
#define MD_MAP_2 nullptr
#endif
#define md_wgmma md_wgmma_second
