"""How well programs and policies predict: BoxingGym's protocol with a trusted engine.

Nothing here reads a program: programs are built in the sandbox and scored by the engine.
"""
