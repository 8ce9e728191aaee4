"""Given programs and conversations that a policy is to imitate before it explores."""
