"""Operations problems, one file each: mathematics, settings, dynamics, spaces, the rule."""
