"""The form of the model: do types have different transitions, do rewards depend on the next state?"""
