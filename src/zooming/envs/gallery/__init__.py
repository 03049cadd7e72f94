"""Operations problems, one file each: mathematics, settings, dynamics, spaces, classical rule."""
