"""Operations on a catalog, one a file. They return values; the command line renders them."""
