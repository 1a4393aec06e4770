"""The gate: pure functions of tensors that know no model."""
