"""recnas among scikit-learn's estimators.

from recnas.sklearn import CTRClassifier

model = CTRClassifier(model="dcn-v2").fit(frame, clicked)
model.predict_proba(frame)[:, 1]
"""

from recnas.sklearn.classifier import CTRClassifier

__all__ = ["CTRClassifier"]
